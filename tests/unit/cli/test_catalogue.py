"""The list of models: one line each where there is room, a block of lines where there is not."""

from __future__ import annotations

import json

import msgspec
import pytest
from typer.testing import CliRunner

from edge_runtime.cli import app, catalogue
from edge_runtime.engines.recipe import load_recipe, recipes
from edge_runtime.engines.store import Store, Stored


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """`listed(columns, *options)`: what `pull --list` writes about a store without any model."""
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(tmp_path))

    def run(columns: int, *options: str) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        done = CliRunner().invoke(app, ["pull", "--list", *options])
        assert done.exit_code == 0, done.output
        return done.stdout.splitlines()

    return run


def test_json_tells_all_that_a_recipe_says(listed) -> None:
    rows = {row["model"]: row for row in map(json.loads, listed(80, "--json"))}
    assert tuple(rows) == recipes()
    recipe, told = load_recipe("moonshine-tiny-en"), rows["moonshine-tiny-en"]
    assert told["streaming"] == "re-encoding"
    assert told["state"] == "absent"
    assert told["bytes"] == 0
    assert told["download_bytes"] == recipe.size == 13238168 + 58327168 + 249974
    assert (told["wer"], told["wer_source"]) == (4.74, recipe.expected[0].source)
    assert told["verified"] == [*msgspec.to_builtins(recipe.verified)]


def test_a_wide_terminal_has_a_line_a_model(listed) -> None:
    lines = listed(catalogue.NARROW + 60)
    (line,) = [line for line in lines if line.startswith("moonshine-tiny-en")]
    for said in ("moonshine", "en", "re-encoding", "MIT", "absent", "72", "4.74", "2026-11-30"):
        assert said in line.split()
    assert lines[-1].startswith("Store: ")


@pytest.mark.parametrize("columns", [40, 80])
def test_a_narrow_one_has_all_of_it_and_no_line_too_long(listed, columns) -> None:
    lines = listed(columns)
    assert max(map(len, lines[:-1])) <= columns
    told = " ".join(" ".join(lines).split())
    for verified in load_recipe("moonshine-tiny-en").verified:
        assert f"run here: {verified}" in told
    assert "WER 4.74 %: LibriSpeech mini" in told


def test_what_was_not_run_here_says_so(tmp_path, monkeypatch, capsys) -> None:
    languages = tuple(f"l{number}" for number in range(99))
    recipe = msgspec.structs.replace(
        load_recipe("moonshine-tiny-en"), verified=(), expected=(), languages=languages
    )
    stored = Stored(recipe, "ready", None, (), 3_000_000)
    monkeypatch.setattr(Store, "listing", lambda self: [stored])
    for columns in (60, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        catalogue.show(Store(tmp_path), as_json=False)
        told = capsys.readouterr().out
        assert "not run here" in told
        assert "99 languages" in told
        assert "3 MB" in told


def test_the_size_is_that_of_all_files_of_the_model(tmp_path) -> None:
    folder = tmp_path / "moonshine-tiny-en" / "weights"
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(b"12345")
    (folder.parent / "b").write_bytes(b"67")
    assert Store(tmp_path).size("moonshine-tiny-en") == 7
    assert Store(tmp_path).size("silero-vad") == 0

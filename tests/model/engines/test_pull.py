"""The command, the real recipes and the real files: from a folder, and what the list says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from edge_runtime.cli import app
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store


@pytest.fixture
def by_hand(published, tmp_path) -> Path:
    """A folder with the published files of both models."""
    folder = tmp_path / "by-hand"
    folder.mkdir()
    for name in ("moonshine-tiny-en", "silero-vad"):
        for file in load_recipe(name).sources.pypi.files:
            shutil.copy(published(name) / file.name, folder)
    return folder


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Runs `edge-runtime pull` on a store of its own, with no index to reach."""
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "none"))

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["pull", *arguments])

    return run


def test_brings_the_model_and_the_one_it_requires(by_hand, command, tmp_path):
    done = command("moonshine-tiny-en", "--from", str(by_hand))
    assert done.exit_code == 0, done.stderr
    assert "silero-vad: fetched" in done.stdout
    assert "moonshine-tiny-en: fetched" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Next: edge-runtime transcribe FILE")
    store = Store(tmp_path / "store")
    for name in ("moonshine-tiny-en", "silero-vad"):
        recipe = load_recipe(name)
        store.weights(recipe, verify=True)
        assert store.graphs(recipe).is_dir()
    lines = command("--list", "--json").stdout.splitlines()
    rows = {row["model"]: row for row in map(json.loads, lines)}
    ready = {name for name, row in rows.items() if row["state"] == "ready"}
    assert ready == {"moonshine-tiny-en", "silero-vad"}
    assert rows["moonshine-tiny-en"]["licence"] == "MIT"
    assert rows["moonshine-tiny-en"]["megabytes"] == 71.8
    again = command("moonshine-tiny-en", "--json")
    assert [json.loads(line)["fetched"] for line in again.stdout.splitlines()] == [False, False]


def test_lists_what_there_is_before_anything_was_pulled(command):
    done = command("--list")
    assert done.exit_code == 0, done.stderr
    told = done.stdout.split("moonshine-tiny-en")[1].split("nemotron")[0]
    for said in ("moonshine,", "en,", "MIT", "absent,", "4.74"):
        assert said in told.split()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["moonshine-tiny-en"], "--from FOLDER"),
        (["moonshin"], "Did you mean moonshine-tiny-en?"),
        (["silero-vad", "--source", "hub"], "Use one of: pypi."),
    ],
)
def test_what_cannot_be_done_ends_in_two_lines(command, arguments, said):
    done = command(*arguments)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 2
    assert "Traceback" not in done.stderr

"""`build` and `engines`: what they say, in text and in JSON, and what they refuse."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from edge_runtime import cli
from edge_runtime.engines.board import Board
from edge_runtime.engines.engine import engines

pytestmark = pytest.mark.usefixtures("needs_rtx", "made_up_store")


def run(*args: object) -> Result:
    return CliRunner().invoke(cli.app, [str(each) for each in args])


@pytest.fixture
def build(made_up_path):
    """`build(option…)` of the made-up model; gives what it said as JSON."""

    def build(*options: str) -> dict:
        result = run("build", made_up_path, "--tensorrt", "tensorrt_rtx", "--json", *options)
        assert result.exit_code == 0, result.output
        (line,) = result.stdout.splitlines()
        return json.loads(line)

    return build


@pytest.fixture
def on_a_board(monkeypatch):
    def put(*capabilities: tuple[int, int] | None) -> None:
        gpus = [
            Board(each, "Orin" if each else "", "", "", 1 << 33, "board") for each in capabilities
        ]
        monkeypatch.setattr("edge_runtime.cli.engines.board", gpus.__getitem__)
        monkeypatch.setattr("edge_runtime.engines.build.board", gpus.__getitem__)

    return put


def test_build_says_what_and_what_next(made_up_path, made_up_store) -> None:
    line = "build", made_up_path, "--tensorrt", "tensorrt_rtx"
    first, second = run(*line), run(*line)
    (engine,) = engines(made_up_store)
    folder, name = engine.folder, engine.folder.name
    assert first.exit_code == 0
    built, following = first.stdout.splitlines()
    assert built.startswith("made-up: built in ")
    assert built.endswith(f" s, in {folder}")
    assert following == (
        f"Next: edge-runtime engines export made-up --engine {name} -o made-up-fp16.tar"
    )
    assert first.stderr.startswith("memory: ")
    assert len(first.stderr.splitlines()) == 1
    assert second.stdout.splitlines() == [f"made-up: was there, in {folder}", following]
    assert second.stderr == ""


def test_build_on_a_board_ends_with_serving(made_up_path, on_a_board) -> None:
    on_a_board((8, 7))
    said = run("build", made_up_path, "--tensorrt", "tensorrt_rtx")
    assert said.stdout.splitlines()[-1] == (
        "Next: edge-runtime serve --device tensorrt --model made-up"
    )


def test_build_takes_what_no_option_says_from_the_settings(build, tmp_path) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text('[computing]\nprecision = "fp32"\ntensorrt = "tensorrt"\n')
    said = build("--config", str(settings), "--rows", "1")  # the option says tensorrt_rtx
    assert said["engine"]["precision"] == "fp32"
    assert not build("--precision", "fp32", "--rows", "1")["built_now"]


def test_build_takes_its_options_and_the_cap_of_the_settings(build, tmp_path) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text("[listening]\ncap_ms = 8000\n")
    said = build(
        "--precision", "fp32", "--split", "3", "--rows", "3", "--workspace-mb", "77",
        "--config", str(settings),
    )  # fmt: skip
    info = said["engine"]
    assert said["built_now"]
    assert said["fingerprint"] == Path(said["folder"]).name
    assert (info["precision"], info["split"], info["rows"]) == ("fp32", [3], 3)
    assert info["workspace_mb"] == 77
    assert info["samples"] == (8000 + 400 + 1000) * 16
    assert build("--rows", "1", "--seconds", "1.5")["engine"]["samples"] == 24_000
    assert not build("--precision", "fp32", "--split", "3", "--rows", "3",
                     "--config", str(settings))["built_now"]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--split", "a,b"], 1, "fix:   Write it as in --split 3,3."),
        (["--split", "2,2"], 1, "fix:   The numbers must add up to 3, as in --split 3."),
        (["--rows", "0"], 2, "--rows"),
        (["--workspace-mb", "0"], 2, "--workspace-mb"),
        (["--precision", "int4"], 2, "'fp16', 'fp32'"),
        (["--tensorrt", "trt"], 2, "'auto', 'tensorrt', 'tensorrt_rtx'"),
        (["--tensorrt", "tensorrt"], 1, "error: tensorrt is not installed"),
    ],
)
def test_build_refuses_with_the_fix(made_up_path, options, code, said) -> None:
    result = run("build", made_up_path, *options)
    assert result.exit_code == code
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_build_refuses_what_does_not_fit(made_up_path, monkeypatch) -> None:
    small = Board(None, "", "", "", 450 << 20, "")
    monkeypatch.setattr("edge_runtime.engines.build.board", lambda index: small)
    result = run("build", made_up_path, "--tensorrt", "tensorrt_rtx", "--workspace-mb", "300")
    assert result.exit_code == 1
    plan, error, fix = result.stderr.splitlines()
    assert plan.startswith("memory: ")
    assert "MB, and 450 MB are free" in error
    assert fix.startswith("fix:   Add --")
    assert "--workspace-mb " in fix


def test_build_draws_a_bar_for_each_tile_at_a_terminal(made_up_path, made_up_store, drawn) -> None:
    made_up_store.forget_graphs("made-up")
    line = [sys.executable, "-m", "edge_runtime", "build", str(made_up_path)]
    text = drawn([*line, "--tensorrt", "tensorrt_rtx"], env={**os.environ, "COLUMNS": "100"})
    for tile in ("graphs", "encoder", "embedding", "layers_0_1", "layers_1_3"):
        assert f"made-up: {tile}" in text
    assert "100 %" in text


def test_build_ends_at_ctrl_c_with_130(made_up_path, made_up_store) -> None:
    with made_up_store.lock("made-up"):  # it waits: a build of this model is over too soon
        process = subprocess.Popen(
            [sys.executable, "-m", "edge_runtime", "build", str(made_up_path)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert list(engines(made_up_store)) == []


def test_an_empty_store_says_how_to_begin() -> None:
    said = run("engines", "list")
    assert said.exit_code == 0
    assert "no engines in " in said.stdout
    assert "Next: edge-runtime build moonshine-tiny-en" in said.stdout
    assert "no engines in " in run("engines", "verify").stdout
    assert run("engines", "list", "--json").stdout == ""


def test_list_tells_what_serves_here_and_why_not(build, on_a_board, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    half, full = build(), build("--precision", "fp32")

    def states() -> dict[str, str]:
        rows = [json.loads(line) for line in run("engines", "list", "--json").stdout.splitlines()]
        return {row["fingerprint"]: row["state"] for row in rows}

    on_a_board((8, 7))
    assert set(states().values()) == {"usable here"}
    on_a_board(None)
    assert set(states().values()) == {"whole; no GPU here"}
    on_a_board((7, 5))
    (Path(full["folder"]) / "encoder.plan").unlink()
    assert states() == {
        half["fingerprint"]: "not here: target (wanted 7.5, found 8.0-12.x)",
        full["fingerprint"]: f"damaged: {full['folder']}/encoder.plan is gone",
    }
    lines = run("engines", "list", "made-up").stdout.splitlines()
    assert max(map(len, lines[:-1])) <= 80  # the last one is a path
    said = " ".join(" ".join(lines).split())  # as it is read: cells go on in the next line
    for each, precision in ((half, "fp16"), (full, "fp32")):
        version, built = (each["engine"][key] for key in ("version", "built"))
        assert f"made-up {each['fingerprint'][:8]} tensorrt_rtx {version}, {precision}, GPU" in said
        assert "GPU 8.0-12.x, layers 1+2, " in said
        assert f" MB, {built[:10]} {built[11:16]} " in said
    assert "not here: target (wanted 7.5, found 8.0-12.x)" in said
    assert f"{full['fingerprint']}/encoder.planisgone" in said.replace(" ", "")  # a path is cut
    other = run("engines", "list", "other")
    assert f"no engines of other in {Path(half['folder']).parents[1]}, which has" in other.stdout
    assert other.stdout.splitlines() == [
        other.stdout.splitlines()[0], "Next: edge-runtime build other",
    ]  # fmt: skip


def test_list_and_import_look_at_the_gpu_of_the_settings(
    build, on_a_board, tmp_path, monkeypatch
) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text("[computing]\nindex = 1\n")
    build()
    on_a_board((7, 5), (8, 7))
    tar = tmp_path / "made-up.tar"
    assert run("engines", "export", "made-up", "-o", tar).exit_code == 0
    chosen = "--config", settings
    assert "not here: target (wanted 7.5" in run("engines", "list", "--json").stdout
    assert "usable here" in run("engines", "list", "--json", *chosen).stdout
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(tmp_path / "other"))
    assert run("engines", "import", tar).exit_code == 1
    assert run("engines", "import", tar, *chosen).exit_code == 0


def test_verify_of_a_model_without_engines_names_what_there_is(build) -> None:
    empty = run("engines", "verify", "made-up")
    assert (empty.exit_code, "which has" in empty.stderr) == (1, False)
    build()
    for options in ([], ["--json"]):
        said = run("engines", "verify", "made-op", *options)
        assert (said.exit_code, said.stdout) == (1, "")
        error, fix = said.stderr.splitlines()
        assert error.startswith("error: there is no engine of made-op in ")
        assert error.endswith(", which has engines of made-up")
        assert fix == "fix:   See edge-runtime engines list, or run: edge-runtime build made-op"


def test_verify_finds_a_changed_byte(build) -> None:
    half, full = build(), build("--precision", "fp32")
    said = run("engines", "verify")
    assert said.exit_code == 0
    assert sorted(said.stdout.splitlines()) == sorted(
        f"made-up {each['fingerprint']}: whole" for each in (half, full)
    )
    plan = Path(full["folder"]) / "encoder.plan"
    plan.write_bytes(b"\0" + plan.read_bytes()[1:])
    said = run("engines", "verify")
    assert said.exit_code == 1
    error, fix = said.stderr.splitlines()
    assert error == (
        f"error: made-up {full['fingerprint']}: {plan} was changed: its sha256 differs"
    )
    assert fix.startswith("fix:   Run: edge-runtime build made-up --precision fp32 --tensorrt")
    rows = [json.loads(line) for line in run("engines", "verify", "--json").stdout.splitlines()]
    assert {row["fingerprint"]: row["whole"] for row in rows} == {
        half["fingerprint"]: True, full["fingerprint"]: False,
    }  # fmt: skip


def test_rm_asks_for_a_choice_and_for_a_yes(build, made_up_store) -> None:
    half, full = build(), build("--precision", "fp32")
    several = run("engines", "rm", "made-up", "--yes")
    assert several.exit_code == 1
    assert "made-up has 2 engines" in several.stderr
    assert "fix:   Choose one with --engine, or take --all." in several.stderr
    unasked = run("engines", "rm", "made-up", "--engine", half["fingerprint"][:6])
    assert unasked.exit_code == 1
    assert "fix:   Add --yes." in unasked.stderr
    assert len(list(engines(made_up_store))) == 2
    one = run("engines", "rm", "made-up", "--engine", half["fingerprint"][:6], "--yes")
    assert one.stdout.startswith(f"made-up: deleted {half['fingerprint']}, ")
    assert [engine.folder.name for engine in engines(made_up_store)] == [full["fingerprint"]]
    assert run("engines", "rm", "made-up", "--all", "--yes").exit_code == 0
    assert list(engines(made_up_store)) == []
    none = run("engines", "rm", "made-up")
    assert none.exit_code == 1
    assert "there is no engine of made-up" in none.stderr
    assert (made_up_store.root / "made-up" / "weights" / "model.safetensors").is_file()


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 1), ("y", 0, 0)])
def test_rm_asks_at_a_terminal(build, made_up_store, answer, code, left) -> None:
    build()
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "edge_runtime", "engines", "rm", "made-up"],
        stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.write(ours, f"{answer}\n".encode())
    _, err = process.communicate(timeout=20)
    os.close(ours)
    os.close(theirs)
    assert "of made-up, " in err
    assert process.returncode == code
    assert len(list(engines(made_up_store))) == left


def test_export_and_import_carry_an_engine(build, on_a_board, tmp_path, monkeypatch) -> None:
    built, tar = build(), tmp_path / "made-up.tar"
    said = run("engines", "export", "made-up", "-o", tar)
    assert said.exit_code == 0
    assert said.stdout.splitlines()[0].startswith(f"made-up: {built['fingerprint']} in {tar}, ")
    assert said.stdout.splitlines()[1].endswith("edge-runtime engines import made-up.tar")
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(tmp_path / "other"))
    on_a_board(None)
    first, second = run("engines", "import", tar), run("engines", "import", tar)
    place = tmp_path / "other" / "made-up" / built["fingerprint"]
    assert first.stdout.splitlines() == [
        f"made-up: imported, in {place}",
        "Next: edge-runtime engines list, or edge-runtime serve --device tensorrt",
    ]
    assert "whether it serves one was not checked" in first.stderr
    assert second.stdout.startswith(f"made-up: was there, in {place}")
    on_a_board((7, 5))
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(tmp_path / "third"))
    refused = run("engines", "import", tar)
    assert refused.exit_code == 1
    assert "differs in target (wanted 7.5, found 8.0-12.x)" in refused.stderr


@pytest.mark.parametrize("name", ["list", "verify", "rm", "export", "import"])
def test_every_sub_command_teaches(name) -> None:
    said = run("engines", name, "--help")
    assert said.exit_code == 0
    assert f"engines {name}" in said.stdout
    assert f"  {name} " in run("engines", "--help").stdout

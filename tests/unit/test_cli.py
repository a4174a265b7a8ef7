"""The command line: quick to start, and plain about what went wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from edge_runtime import __version__, cli
from edge_runtime.errors import AudioError, EdgeRuntimeError

HEAVY = ("numpy", "onnxruntime", "onnx", "aiohttp", "soundfile", "rich.live", "msgspec")


def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "edge_runtime", *args],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100", **env},
        stdin=subprocess.DEVNULL,
    )


def test_help_lists_every_command_and_how_to_begin() -> None:
    said = run("--help")
    assert said.returncode == 0
    for name, what in cli.COMMANDS.items():
        assert f"  {name} " in said.stdout
        assert what[:40] in said.stdout
    assert "edge-runtime transcribe --mic " in said.stdout


def test_help_loads_no_library_that_takes_time() -> None:
    code = (
        "import sys; from edge_runtime import cli\n"
        "try: cli.app(['--help'])\n"
        f"except SystemExit: print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "[]"


def test_help_is_there_in_less_than_half_a_second() -> None:
    took = []
    for _ in range(5):
        began = time.perf_counter()
        run("--help")
        took.append(time.perf_counter() - began)
    assert min(took) < 0.4


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_is_there_and_teaches(name: str) -> None:
    said = run(name, "--help")
    assert said.returncode == 0, said.stderr
    assert f"Usage: edge-runtime {name}" in said.stdout
    assert f"\n  edge-runtime {name} " in said.stdout  # an example


def test_version() -> None:
    assert run("--version").stdout == f"edge-runtime {__version__}\n"


def test_a_command_that_is_not_there_is_wrong_usage_with_a_guess() -> None:
    said = run("transcrib")
    assert said.returncode == 2
    assert "Did you mean 'transcribe'?" in said.stderr
    assert said.stdout == ""


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ([], "name files, or - for a pipe, or use --mic"),
        (["--mic", "a.wav"], "name files, or - for a pipe, or use --mic"),
        (["-", "-"], "- can be read once"),
        (["--srt", "--json", "a.wav"], "choose one of --json, --srt and --vtt"),
        (["--srt", "a.wav", "b.wav"], "--srt of several files needs --output DIR"),
        (["-o", "out", "a/x.wav", "b/x.flac"], "two files are called x"),
        (["--live", "a.wav", "b.wav"], "take one source"),
        (["--mic", "--vtt"], "give text or --json"),
        (["--threads", "0", "a.wav"], "--threads"),
        (["--encoding", "pcm_s24le", "-"], "pcm_s16le"),
    ],
)
def test_options_that_do_not_go_together_are_wrong_usage(args: list[str], why: str) -> None:
    said = run("transcribe", *args)
    assert said.returncode == 2
    assert why in said.stderr
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ([], "no model named. Run: edge-runtime pull moonshine-tiny-en, or --list."),
        (
            ["silero-vad", "--from", ".", "--source", "hub"],
            "--from and --source are both given. Use one of them.",
        ),
        (
            ["silero-vad", "--from", "/no/such/folder"],
            "/no/such/folder is not a folder. Give --from the folder with the files.",
        ),
        (["silero-vad", "--source", "ftp"], "'ftp' is not one of 'pypi', 'hub'"),
    ],
)
def test_pulling_nothing_or_from_nowhere_is_wrong_usage(args: list[str], why: str) -> None:
    said = run("pull", *args)
    assert said.returncode == 2
    assert why in said.stderr
    assert said.stdout == ""


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("serve --log-level loud", "debug"),
        ("bench m.tsv --rows whole,nine", "no row is called nine. Choose from: whole,"),
        ("bench m.tsv --peer other", "Choose from: moonshine-voice,"),
    ],
)
def test_a_choice_that_is_none_is_wrong_usage_and_names_them(line: str, named: str) -> None:
    said = run(*line.split(), COLUMNS="200")
    assert said.returncode == 2
    assert named in said.stderr
    assert said.stdout == ""


def test_listen_wants_one_source() -> None:
    assert run("listen").returncode == 2
    assert run("listen", "--mic", "a.wav").returncode == 2


def test_an_error_is_two_lines_and_the_traceback_is_for_debug() -> None:
    said = run("listen", "missing.wav")
    assert said.returncode == 1
    assert said.stdout == ""
    assert said.stderr.splitlines() == [
        "error: missing.wav cannot be read: No such file or directory",
        "fix:   Check the path and its permissions.",
    ]
    for debug in (
        run("--debug", "listen", "missing.wav"),
        run("listen", "x", EDGE_RUNTIME_DEBUG="1"),
    ):
        assert debug.returncode == 1
        assert "Traceback" in debug.stderr
        assert "AudioError" in debug.stderr


def test_no_server_says_how_to_start_one() -> None:
    clip = str(Path(__file__).resolve().parents[2] / "audio" / "demo.flac")
    said = run("listen", "--url", "ws://127.0.0.1:9/v1/stream", clip)
    assert said.returncode == 1
    assert "no server answers at ws://127.0.0.1:9/v1/stream" in said.stderr
    assert "edge-runtime serve" in said.stderr


def test_a_bug_is_not_dressed_as_a_user_s_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("edge_runtime.cli.listen.open_file", broken)
    assert isinstance(CliRunner().invoke(cli.app, ["listen", "x"]).exception, ZeroDivisionError)


def test_ctrl_c_is_130(tmp_path: Path) -> None:
    fifo = tmp_path / "never.wav"
    os.mkfifo(fifo)  # opening it waits for a writer that never comes
    process = subprocess.Popen(
        [sys.executable, "-m", "edge_runtime", "listen", str(fifo)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_report_names_the_place_once(capsys: pytest.CaptureFixture[str]) -> None:
    cli.report(AudioError("a.wav is empty", "Record it again."), "a.wav")
    cli.report(EdgeRuntimeError("the device is gone"), "a.wav")
    assert capsys.readouterr().err.splitlines() == [
        "error: a.wav is empty",
        "fix:   Record it again.",
        "error: a.wav: the device is gone",
    ]


def test_completion_knows_the_commands() -> None:
    said = run(_EDGE_RUNTIME_COMPLETE="complete_bash", COMP_WORDS="edge-runtime tr", COMP_CWORD="1")
    assert said.stdout.split() == ["transcribe"]
    assert said.stderr == ""


@pytest.mark.parametrize(
    ("then", "code"), [("pass", 120), ("from edge_runtime import cli; cli.settle_log()", 0)]
)
def test_a_log_that_nothing_takes_changes_no_exit_code(then: str, code: int) -> None:
    """Python itself ends with 120 where a line is left that cannot be written."""
    said = "import sys\ntry: print('a line', file=sys.stderr)\nexcept OSError: pass\n"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", said + then], stderr=full, env=environment, check=False
        )
    assert done.returncode == code

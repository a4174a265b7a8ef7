"""`edge-runtime calibrate`: what it says and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from edge_runtime import cli
from edge_runtime.audio import RATE
from edge_runtime.cli.recorder import record
from edge_runtime.engines import variants
from edge_runtime.engines.calibrate.calibrate import calibrate
from edge_runtime.engines.calibrate.options import Options
from edge_runtime.engines.calibrate.ranges import Range
from edge_runtime.engines.calibrate.watch import Watch


@pytest.fixture
def run(made_up_path, store):
    def run(*args: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "edge_runtime", "calibrate", made_up_path, *args]
        environment = {**os.environ, "EDGE_RUNTIME_STORE": str(store.root)}
        done = subprocess.run(
            list(map(str, line)), capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    return run


def test_one_that_passes_is_installed_and_says_how_to_serve_it(run, store, recordings) -> None:
    done = run("--audio", recordings, "--max-wer-increase", 100, "--json")
    said = json.loads(done.stdout)
    (one,) = variants.variants(store)
    assert said["installed"] == str(one.folder)
    assert said["passed"] is True
    assert said["calibrated"]["bytes"] < said["original"]["bytes"]
    assert said["report"] == str(one.folder / "report.html")
    done = run("--audio", recordings, "--max-wer-increase", 100, "--candidate")
    assert done.stdout.startswith("made-up: installed in ")
    assert "\nweights: " in done.stdout
    assert "Next: edge-runtime serve --model made-up --canary 0.1" in done.stdout


def test_a_suspicious_one_is_refused_with_3(run, store, made_up, recordings) -> None:
    class Stop(Watch):
        def step(self, name: str, done: int, total: int) -> None:
            if name == "measuring groups":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate(made_up, store, Options(recordings), Stop())
    (kept,) = store.root.glob(f"{made_up.name}/.calibration-*/ranges.json")
    ranges = msgspec.json.decode(kept.read_bytes(), type=dict[str, Range])
    name = "model.encoder.conv2.weight"
    ranges[name] = msgspec.structs.replace(ranges[name], absmax=10 * ranges[name].absmax)
    kept.write_bytes(msgspec.json.encode(ranges))
    done = run("--audio", recordings, code=3)
    assert done.stdout == ""
    assert "made-up: refused, nothing was installed" in done.stderr
    assert name in done.stderr
    assert "report: " in done.stderr
    assert "fix: " in done.stderr
    assert not variants.variants(store)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda folder: None, "holds no files"),
        (
            lambda folder: soundfile.write(folder / "a.wav", np.full(2 * RATE, 0.1), RATE),
            "minutes of speech, and at least 1.0 are needed",
        ),
        (
            lambda folder: (folder / "a.pdf").write_text("no audio"),
            "none of the 1 files in",
        ),
    ],
)
def test_a_folder_that_does_not_do_is_an_error_with_a_fix(run, tmp_path, make, why) -> None:
    folder = tmp_path / "audio"
    folder.mkdir()
    make(folder)
    done = run("--audio", folder, code=1)
    assert why in done.stderr
    assert "fix: " in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ([], "name a folder of recordings: --audio DIR"),
        (["--audio", ".", "--holdout", "0.99"], "--holdout"),
        (["--audio", ".", "--max-wer-increase", "-1"], "--max-wer-increase"),
        (["--audio", ".", "--target", "beauty"], "--target"),
    ],
)
def test_wrong_usage_is_2(run, args, why) -> None:
    assert why in run(*args, code=2).stderr


def test_ctrl_c_says_how_to_go_on(monkeypatch, made_up_path, store, recordings) -> None:
    from edge_runtime.cli import calibration

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(store.root))
    monkeypatch.setattr(calibration, "calibrate", interrupted)
    line = ["calibrate", str(made_up_path), "--audio", str(recordings)]
    done = CliRunner().invoke(cli.app, line)
    assert done.exit_code == 130
    assert "the same command goes on where this one stopped" in done.output


class Live:
    """Ten seconds of a microphone."""

    live, seconds, name, warnings = True, None, "live", ["the system lost audio 1 times"]

    def __iter__(self):
        yield from np.random.default_rng(0).normal(0, 0.1, (100, RATE // 10)).astype(np.float32)


def test_what_is_recorded_can_be_used_again(tmp_path, capsys) -> None:
    paths = [record(Live(), tmp_path / "new", 4.25) for _ in range(2)]
    assert [path.name for path in paths] == ["recorded-001.flac", "recorded-002.flac"]
    assert soundfile.info(paths[1]).frames == 4.25 * RATE
    assert "recording 0:04" in capsys.readouterr().err

"""`build --if-needed`: what a unit runs at each start does nothing, unless the server lacks it."""

from __future__ import annotations

import json
import tarfile

import pytest
from typer.testing import CliRunner, Result

from edge_runtime import cli
from edge_runtime.engines.board import Board
from edge_runtime.engines.engine import engines
from edge_runtime.engines.store import Store

pytestmark = pytest.mark.usefixtures("needs_rtx")
NEED = "edge_runtime.engines.build.need"


@pytest.fixture
def settings(tmp_path, made_up_path):
    """`settings(device)` writes what server and unit share; gives the options for it."""

    def write(device: str = "auto", cap_ms: int = 16_000) -> tuple[str, str]:
        path = tmp_path / "config.toml"
        path.write_text(
            f'[serving]\nmodel = "{made_up_path}"\ndevice = "{device}"\n'
            f'[computing]\ntensorrt = "tensorrt_rtx"\n[listening]\ncap_ms = {cap_ms}\n'
        )
        return "--config", str(path)

    return write


@pytest.fixture
def board(monkeypatch) -> None:
    """A machine whose GPU works."""
    there = Board((8, 7), "Orin", "36.4.3", "540.4.0", 1 << 33, "board")
    monkeypatch.setattr(f"{NEED}.present", lambda: True)
    monkeypatch.setattr(f"{NEED}.board", lambda index: there)
    monkeypatch.setattr("edge_runtime.engines.build.board", lambda index: there)


def build(*options: str) -> Result:
    return CliRunner().invoke(cli.app, ["build", "--if-needed", *options])


def test_it_builds_for_the_model_of_the_settings_once(board, settings, made_up_store) -> None:
    first, second = build(*settings()), build(*settings())
    (engine,) = engines(made_up_store)
    assert engine.info.model == "made-up"
    assert first.exit_code == second.exit_code == 0
    assert first.stdout.startswith("made-up: built in ")
    assert second.stdout == (f"made-up: there is an engine that serves here, {engine.folder}\n")
    assert second.stderr == ""


def test_without_a_gpu_every_model_that_is_served_is_looked_at(made_up_path, tmp_path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f'[serving]\nmodels = ["moonshine-tiny-en", "{made_up_path}"]\n')
    done = build("--config", str(path))
    assert done.exit_code == 0, done.output
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "moonshine-tiny-en",
        "made-up",
    ]


def test_any_engine_will_do_that_the_server_would_take(board, settings, made_up_store) -> None:
    build(*settings(), "--rows", "2")
    again = build(*settings(cap_ms=8_000), "--json")
    assert json.loads(again.stdout)["built_now"] is False
    assert len(list(engines(made_up_store))) == 1
    # A longer cap is more than that engine takes.
    assert "built in" in build(*settings(cap_ms=18_000)).stdout
    assert len(list(engines(made_up_store))) == 2


def test_what_was_calibrated_gets_an_engine_of_its_own(
    board, settings, made_up_store, calibrated
) -> None:
    build(*settings())
    name = calibrated().name
    assert "built in" in build(*settings()).stdout
    kinds = {engine.info.precision: engine.info for engine in engines(made_up_store)}
    assert kinds.keys() == {"fp16", "int8"}
    assert kinds["int8"].variant == name
    assert "there is an engine that serves here" in build(*settings()).stdout
    # One that does not fit any more leaves the engine in floating point.
    (made_up_store.root / "made-up" / name / "calibration.json").write_text("{}")
    again = build(*settings())
    assert "the calibrated model is left out: " in again.stderr
    assert "there is an engine that serves here" in again.stdout


def test_an_engine_that_is_damaged_is_built_again(board, settings, made_up_store) -> None:
    build(*settings())
    (engine,) = engines(made_up_store)
    (engine.folder / "encoder.plan").unlink()
    assert build(*settings()).stdout.startswith("made-up: built in ")
    engine.check(verify=True)


def test_again_builds_what_is_there(board, settings, made_up_store) -> None:
    build(*settings())
    assert build(*settings(), "--again").stdout.startswith("made-up: built in ")


def test_an_imported_engine_is_enough_without_weights(
    board, settings, made_up_store, tmp_path, monkeypatch
) -> None:
    build(*settings())
    (engine,) = engines(made_up_store)
    tar = tmp_path / "made-up.tar"
    run = CliRunner().invoke
    assert run(cli.app, ["engines", "export", "made-up", "-o", str(tar)]).exit_code == 0
    assert tarfile.is_tarfile(tar)
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(tmp_path / "other"))
    # Nothing to build it from, and none that serves: that is an error, not an idle unit.
    nothing = build(*settings())
    assert nothing.exit_code == 1
    assert "fix:   Run: edge-runtime pull made-up" in nothing.stderr
    assert run(cli.app, ["engines", "import", str(tar)]).exit_code == 0
    said = build(*settings())
    assert said.exit_code == 0
    place = Store().root / "made-up" / engine.info.fingerprint
    assert said.stdout == f"made-up: there is an engine that serves here, {place}\n"


@pytest.mark.parametrize("device", ["cpu", "onnx-cuda", "onnx-tensorrt"])
def test_a_server_that_uses_no_engine_needs_none(board, settings, made_up_store, device) -> None:
    said = build(*settings(device))
    assert said.exit_code == 0
    assert said.stdout == (f"made-up: no engine is needed: the settings name the device {device}\n")
    assert list(engines(made_up_store)) == []


def test_a_device_that_is_none_is_an_error(board, settings, made_up_store) -> None:
    said = build(*settings("tensort"))
    assert said.exit_code == 1
    assert "error: unknown device 'tensort'" in said.stderr


def test_it_looks_at_the_gpu_of_the_settings(settings, made_up_store, monkeypatch) -> None:
    old, new = (Board(each, "", "", "", 1 << 33, "") for each in ((7, 5), (8, 7)))
    monkeypatch.setattr(f"{NEED}.present", lambda: True)
    for module in (NEED, "edge_runtime.engines.build"):
        monkeypatch.setattr(f"{module}.board", (old, new).__getitem__)
    build(*settings())
    monkeypatch.setenv("EDGE_RUNTIME_COMPUTING_INDEX", "1")
    assert "there is an engine that serves here" in build(*settings()).stdout
    monkeypatch.setenv("EDGE_RUNTIME_COMPUTING_INDEX", "0")
    assert "was there" in build(*settings()).stdout  # asked for, as none serves here


def test_without_a_gpu_it_does_nothing_and_says_so(settings, made_up_store, monkeypatch) -> None:
    monkeypatch.setattr(f"{NEED}.present", lambda: False)
    said = build(*settings(), "--json")
    assert said.exit_code == 0
    assert json.loads(said.stdout) == {
        "model": "made-up",
        "built_now": False,
        "reason": "no engine is needed: there is no NVIDIA GPU here, or its driver is not loaded",
    }
    assert list(engines(made_up_store)) == []


def test_without_tensorrt_it_does_nothing_and_names_it(
    board, settings, made_up_store, monkeypatch
) -> None:
    monkeypatch.setattr(f"{NEED}.installed", lambda: ("tensorrt_rtx",))
    said = build(*settings(), "--tensorrt", "tensorrt")
    assert said.exit_code == 0
    assert said.stdout == "made-up: no engine can be used: tensorrt is not installed\n"
    monkeypatch.setattr(f"{NEED}.installed", lambda: ())
    said = build(*settings(), "--tensorrt", "auto")
    assert said.stdout.endswith("tensorrt or tensorrt_rtx is not installed\n")
    assert list(engines(made_up_store)) == []


def test_a_gpu_that_does_not_work_is_an_error(settings, made_up_store, monkeypatch) -> None:
    """With plain TensorRT, which builds for the GPU it runs on."""
    from edge_runtime.device.tensorrt.module import TensorRT

    broken = Board(None, "", "", "", 1 << 33, "", trouble="cuInit says CUDA_ERROR_NO_DEVICE")
    library = TensorRT("tensorrt", "10.3.0", None)
    monkeypatch.setattr(f"{NEED}.present", lambda: True)
    monkeypatch.setattr(f"{NEED}.installed", lambda: ("tensorrt",))
    for module in (NEED, "edge_runtime.engines.build"):
        monkeypatch.setattr(f"{module}.board", lambda index: broken)
        monkeypatch.setattr(f"{module}.find_tensorrt", lambda flavour: library)
    said = build(*settings(), "--tensorrt", "tensorrt")
    assert said.exit_code == 1
    assert "CUDA_ERROR_NO_DEVICE" in said.stderr

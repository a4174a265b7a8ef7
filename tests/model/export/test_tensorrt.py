"""Every graph parses in TensorRT-RTX and builds there, on a machine without a GPU."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edge_runtime.engines.board import Board
from edge_runtime.engines.build import BuildOptions, build
from edge_runtime.engines.build.contract import Signature, Tensor, signatures
from edge_runtime.engines.engine import engines, read
from edge_runtime.engines.plans import split, unlike_here
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store

TILES = {
    None: ["encoder", "embedding", "layers_0_3", "layers_3_6"],
    (6,): ["encoder", "embedding", "layers_0_6"],
}


@pytest.fixture(scope="module", autouse=True)
def tensorrt_rtx() -> None:
    if importlib.util.find_spec("tensorrt_rtx_bindings") is None:
        where = f"{platform.system()} {platform.machine()}"
        pytest.skip(f"TensorRT-RTX is not installed on this {where}: pip install .[rtx]")


@pytest.fixture(scope="module")
def store(weights_folder, loaded, tmp_path_factory) -> Store:
    """A store of its own, with the weights and the detector of this machine's."""
    own = Store(tmp_path_factory.mktemp("store"))
    for name in ("moonshine-tiny-en", "silero-vad"):
        shutil.copytree(Store().root / name / "weights", own.root / name / "weights")
    return own


@pytest.mark.parametrize("tiles", TILES, ids=["recipe", "one tile"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_an_engine_builds(recipe, store, precision, tiles) -> None:
    options = BuildOptions(precision, "tensorrt_rtx", split=tiles)
    engine = read(build(recipe, store, options))
    engine.check(verify=True)
    assert unlike_here(store, engine, Board((8, 9), "", "", "", 0, "")) == []
    graphs = store.graphs(split(recipe, tiles), precision)
    assert {path.stem for path in engine.folder.glob("*.plan")} == set(TILES[tiles])
    for name in TILES[tiles]:
        weights = [
            tensor.raw_data for tensor in onnx.load(graphs / f"{name}.onnx").graph.initializer
        ]
        plan = (engine.folder / f"{name}.plan").stat().st_size
        assert plan > sum(map(len, weights)) // 2
    for name, source in [
        ("table.npy", graphs), ("shape.json", graphs), ("vocabulary.json", graphs),
        ("vad.onnx", store.graphs(load_recipe("silero-vad"))),
    ]:  # fmt: skip
        assert (engine.folder / name).read_bytes() == (source / name).read_bytes()


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_contract_is_what_the_exporter_writes(recipe, store, precision) -> None:
    graphs, wanted = store.graphs(recipe, precision), signatures(recipe, precision)
    assert sorted(wanted) == sorted(TILES[None])
    for name, each in wanted.items():
        assert described(graphs / f"{name}.onnx") == each


def described(path: Path) -> Signature:
    """What a graph says of its own ends."""
    graph = onnx.load(path).graph
    return Signature(
        *({value.name: tensor(value.type.tensor_type) for value in values}
          for values in (graph.input, graph.output))
    )  # fmt: skip


def tensor(kind: onnx.TypeProto.Tensor) -> Tensor:
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return Tensor(dtype, tuple(size.dim_param or size.dim_value for size in kind.shape.dim))


def test_ctrl_c_ends_a_build_and_leaves_nothing(store, monkeypatch) -> None:
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(store.root))
    home = store.root / "moonshine-tiny-en"
    before = {engine.folder for engine in engines(store)}
    line = [sys.executable, "-m", "edge_runtime", "build", "moonshine-tiny-en", "--rows", "2"]
    process = subprocess.Popen(
        [*line, "--tensorrt", "tensorrt_rtx"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while process.poll() is None and not any(home.glob(".new-*/encoder.plan")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "built" not in out
    assert not list(home.glob(".*"))
    assert {engine.folder for engine in engines(store)} == before

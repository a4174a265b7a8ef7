"""Engines are built by the real TensorRT-RTX from a made-up model, whole or not at all."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import onnx
import pytest
from onnx import TensorProto, helper

from edge_runtime.device.tensorrt.module import TensorRT, find_tensorrt
from edge_runtime.engines import build as building
from edge_runtime.engines.board import Board
from edge_runtime.engines.build import BuildOptions, MemoryPlan, Watch, build
from edge_runtime.engines.build import tile as one_tile
from edge_runtime.engines.build.contract import Signature, Tensor, signatures
from edge_runtime.engines.build.memory import MB
from edge_runtime.engines.build.profiles import Range, profiles, ranges
from edge_runtime.engines.build.tile import Timings, Work, WorkspaceTooSmall, build_tile
from edge_runtime.engines.engine import engines, read
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.errors import (
    ConfigError,
    DeviceError,
    MissingExtra,
    ModelMissing,
    RecipeError,
)

pytestmark = pytest.mark.usefixtures("needs_rtx")

RTX = BuildOptions(tensorrt="tensorrt_rtx", rows=2, samples=16_000)
HERE = Board(None, "", "", "", 4096 * MB, "here")
GPU = Board((8, 7), "Orin", "36.4.3", "540.4.0", 4096 * MB, "board")


class Told(Watch):
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.plans: list[MemoryPlan] = []
        self.there: list[Path] = []
        self.tiles: dict[str, list[float]] = {}
        self.exported: list[str] = []
        self.waits = 0

    def exporting(self, name: str, done: int, total: int) -> None:
        self.exported.append(name)

    def planned(self, plan: MemoryPlan) -> None:
        self.plans.append(plan)

    def waiting(self) -> None:
        self.waits += 1

    def found(self, folder: Path) -> None:
        self.there.append(folder)

    def advanced(self, tile: str, done: float) -> None:
        self.tiles.setdefault(tile, []).append(done)


def leftovers(store, recipe) -> list[str]:
    return [path.name for path in (store.root / recipe.name).glob(".*")]


def test_a_workspace_that_nobody_chose_grows_until_kernels_do_with_it(
    made_up, made_up_store, monkeypatch
) -> None:
    tried: list[tuple[str, int]] = []

    def built(work: Work, path: Path, *rest: Any) -> bytes:
        tried.append((path.stem, work.workspace // MB))
        if path.stem == "embedding" and work.workspace < 200 * MB:
            raise WorkspaceTooSmall("embedding does not fit", "Raise --workspace-mb.")
        return b"plan"

    monkeypatch.setattr("edge_runtime.engines.build.build_tile", built)
    monkeypatch.setattr("edge_runtime.engines.build.memory.LARGEST_WORKSPACE", 64 * MB)
    folder = build(made_up, made_up_store, RTX)
    assert tried == [
        ("encoder", 64), ("embedding", 64), ("embedding", 128), ("embedding", 256),
        ("layers_0_1", 256), ("layers_1_3", 256),
    ]  # fmt: skip
    assert read(folder).info.workspace_mb == 256
    with pytest.raises(WorkspaceTooSmall):
        build(made_up, made_up_store, replace(RTX, again=True, workspace_mb=100))
    assert tried[6:] == [("encoder", 100), ("embedding", 100)]


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_an_engine_holds_all_that_a_board_needs(made_up, made_up_store, precision) -> None:
    made_up_store.forget_graphs(made_up.name)
    told = Told()
    folder = build(made_up, made_up_store, replace(RTX, precision=precision), told)
    tiles = ["encoder", "embedding", "layers_0_1", "layers_1_3"]
    assert {path.name for path in folder.iterdir()} == {
        *(f"{tile}.plan" for tile in tiles),
        "table.npy", "shape.json", "vocabulary.json", "recipe.json", "engine.json", "proof.npz",
        "step.npz", "manifest.json", *(["encode.npz"] if precision == "fp16" else []),
    }  # fmt: skip
    for tile in tiles:
        assert (folder / f"{tile}.plan").read_bytes()[:4] == b"vtrt"
    engine = read(folder)
    engine.check(verify=True)
    info = engine.info
    assert folder == made_up_store.root / "made-up" / info.fingerprint
    assert (info.precision, info.split, info.tensorrt) == (precision, (1, 2), "tensorrt_rtx")
    assert info.version == find_tensorrt("tensorrt_rtx").version
    assert (info.rows, info.samples, info.queries) == (2, 16_000, 16)
    assert info.weights == made_up_store.hashes(made_up)
    assert info.graphs == made_up_store.fingerprint(made_up, precision)
    assert engine.recipe() == made_up
    assert list(told.tiles) == tiles
    for steps in told.tiles.values():
        assert steps == sorted(steps)
        assert (steps[0], steps[-1]) == (0.0, 1.0)
        assert len(set(steps)) > 10
    assert len(told.plans) == 1
    assert told.exported
    assert not told.there


def test_a_portable_engine_needs_no_gpu(made_up, made_up_store, monkeypatch) -> None:
    gpus = Gpus(monkeypatch)
    assert read(build(made_up, made_up_store, replace(RTX, index=1))).info.gpu == "Orin"
    assert gpus.opened == []


def test_what_is_there_is_kept_until_again(made_up, made_up_store) -> None:
    first = build(made_up, made_up_store, RTX)
    before = (first / "engine.json").stat().st_ino
    told = Told()
    # The workspace is no part of what an engine is for.
    assert build(made_up, made_up_store, replace(RTX, workspace_mb=64), told) == first
    assert told.there == [first]
    assert not told.tiles
    assert (first / "engine.json").stat().st_ino == before
    assert build(made_up, made_up_store, replace(RTX, again=True)) == first
    assert (first / "engine.json").stat().st_ino != before
    (first / "encoder.plan").unlink()
    told = Told()
    assert build(made_up, made_up_store, RTX, told) == first  # damaged: built again
    assert told.tiles
    assert (first / "encoder.plan").is_file()


def test_another_split_is_another_engine_beside(made_up, made_up_store) -> None:
    folders = {build(made_up, made_up_store, replace(RTX, split=tiles)) for tiles in (None, (3,))}
    assert {engine.folder for engine in engines(made_up_store)} == folders
    assert len(folders) == 2
    assert {path.name for folder in folders for path in folder.glob("layers*")} == {
        "layers_0_1.plan", "layers_1_3.plan", "layers_0_3.plan",
    }  # fmt: skip
    # The split that the recipe names is no other.
    told = Told()
    build(made_up, made_up_store, replace(RTX, split=(1, 2)), told)
    assert told.there


def test_graphs_and_engines_lie_side_by_side(made_up, made_up_store) -> None:
    folder = build(made_up, made_up_store, RTX)
    graphs = made_up_store.graphs(made_up, "fp16")
    assert graphs != folder
    made_up_store.forget_graphs(made_up.name)
    assert not graphs.exists()
    read(folder).check(verify=True)


def test_kernels_that_are_compiled_later_are_no_damage(made_up, made_up_store) -> None:
    folder = build(made_up, made_up_store, RTX)
    (folder / "encoder.plan.cache").write_bytes(b"kernels")
    read(folder).check(verify=True)


@pytest.mark.parametrize("times", [1, 1000])
def test_ctrl_c_stops_within_a_tile_and_leaves_nothing(made_up, made_up_store, times) -> None:
    class Pressed(Told):
        left = times

        def advanced(self, tile: str, done: float) -> None:
            super().advanced(tile, done)
            if tile == "layers_0_1" and done > 0.05 and self.left:
                self.left -= 1
                # From a thread of TensorRT's: the main one waits in `build`.
                assert threading.current_thread() is not threading.main_thread()
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.2)

    told = Pressed()
    with pytest.raises(KeyboardInterrupt):
        build(made_up, made_up_store, RTX, told)
    assert not [each for each in threading.enumerate() if each.name.startswith("build")]
    assert max(told.tiles["layers_0_1"]) < 1.0
    assert "layers_1_3" not in told.tiles
    assert leftovers(made_up_store, made_up) == []
    assert list(engines(made_up_store)) == []
    assert build(made_up, made_up_store, RTX).is_dir()


def test_a_killed_builder_is_swept_up(made_up, made_up_path, made_up_store) -> None:
    code = (
        "import os, sys\n"
        "from edge_runtime.engines.build import *\n"
        "from edge_runtime.engines.recipe import load_recipe\n"
        "from edge_runtime.engines.store import Store\n"
        "class Killed(Watch):\n"
        "    def advanced(self, tile, done):\n"
        "        if tile == 'layers_0_1': os.kill(os.getpid(), 9)\n"
        "options = BuildOptions(tensorrt='tensorrt_rtx', rows=2, samples=16_000)\n"
        "build(load_recipe(sys.argv[1]), Store(), options, Killed())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(made_up_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    (half,) = (made_up_store.root / made_up.name).glob(".new-*")
    assert (half / "encoder.plan").is_file()
    assert list(engines(made_up_store)) == []
    build(made_up, made_up_store, RTX)
    assert leftovers(made_up_store, made_up) == []


def test_two_builders_at_once_build_once(made_up_path, made_up_store) -> None:
    arguments = [
        sys.executable, "-m", "edge_runtime", "build", str(made_up_path), "--json",
        "--tensorrt", "tensorrt_rtx", "--rows", "1",
    ]  # fmt: skip
    with made_up_store.lock("made-up"):
        running = [
            subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        time.sleep(1)
    said = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    rows = [json.loads(out) for out, _ in said]
    assert rows[0]["folder"] == rows[1]["folder"]
    assert sorted(row["built_now"] for row in rows) == [False, True]
    (engine,) = engines(made_up_store)
    engine.check(verify=True)


def test_a_second_builder_says_that_it_waits(made_up, made_up_store) -> None:
    made_up_store.graphs(made_up, "fp16")
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        with made_up_store.lock(made_up.name):
            held.set()
            free.wait(20)

    class Waiting(Told):
        def waiting(self) -> None:
            super().waiting()
            free.set()

    holder, told = threading.Thread(target=hold), Waiting()
    holder.start()
    held.wait(20)
    try:
        build(made_up, made_up_store, RTX, told)
    finally:
        free.set()
        holder.join()
    assert told.waits == 1


def test_without_the_weights_nothing_is_built(made_up, made_up_store) -> None:
    shutil.rmtree(made_up_store.root / made_up.name)
    with pytest.raises(ModelMissing, match="edge-runtime pull made-up"):
        build(made_up, made_up_store, RTX)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"precision": "int4"}, ConfigError, "unknown precision 'int4'"),
        ({"rows": 0}, ConfigError, "--rows is 0"),
        ({"rows": 65}, ConfigError, "--rows is 65"),
        ({"workspace_mb": 0}, ConfigError, "--workspace-mb is 0"),
        ({"samples": 100}, ConfigError, "less than one frame"),
        ({"split": (2, 2)}, RecipeError, "--split 2,2 does not cut 3 layers"),
        ({"split": (3, 0)}, RecipeError, "add up to 3"),
        ({"tensorrt": "onnx"}, ConfigError, "unknown TensorRT 'onnx'"),
        ({"tensorrt": "tensorrt"}, MissingExtra, "tensorrt is not installed"),
    ],
)
def test_options_that_cannot_be(made_up, made_up_store, options, error, said) -> None:
    with pytest.raises(error) as caught:
        build(made_up, made_up_store, replace(RTX, **options))
    assert said in str(caught.value)
    assert list(engines(made_up_store)) == []


def test_the_voice_detector_is_no_engine(made_up_store) -> None:
    with pytest.raises(RecipeError, match="silero-vad runs on the CPU"):
        build(load_recipe("silero-vad"), made_up_store, RTX)


def test_tensorrt_proper_needs_a_gpu(made_up, made_up_store, monkeypatch) -> None:
    proper = replace(find_tensorrt("tensorrt_rtx"), flavour="tensorrt")
    monkeypatch.setattr(building, "find_tensorrt", lambda _: proper)
    broken = replace(HERE, trouble="the driver is too old")
    monkeypatch.setattr(building, "board", lambda index: broken)
    with pytest.raises(DeviceError, match=r"the driver is too old.*--tensorrt tensorrt_rtx"):
        build(made_up, made_up_store, RTX)


# What TensorRT proper does beyond: our builder runs in its way with the library that is here.
@pytest.mark.filterwarnings("ignore:Use Deprecated in TensorRT-RTX:DeprecationWarning")
def test_the_way_of_tensorrt_proper(made_up, made_up_store, monkeypatch) -> None:
    proper = TensorRT("tensorrt", "10.3.0", find_tensorrt("tensorrt_rtx").api)
    monkeypatch.setattr(building, "find_tensorrt", lambda _: proper)
    gpus = Gpus(monkeypatch)
    options = replace(RTX, index=1)
    engine = read(build(made_up, made_up_store, options))
    tiles = 4
    # Each tile is parsed in this thread and built in another one: on the GPU that was chosen.
    assert gpus.current == [1] * 2 * tiles
    assert gpus.opened == gpus.closed == [1]
    assert engine.info.target == ("8.7",)
    assert (engine.info.gpu, engine.info.l4t, engine.info.driver) == ("Orin", "36.4.3", "540.4.0")
    assert engine.info.workspace_mb == 1024
    timings = made_up_store.root / made_up.name / "tensorrt-10.3.0.timings"
    first = timings.read_bytes()
    assert first
    timings.write_bytes(b"of another machine")
    build(made_up, made_up_store, replace(options, again=True))
    assert timings.read_bytes()[:16] == first[:16]


class Gpus:
    """Stand-ins for the GPUs of a machine: which were opened, made current and closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[int] = []
        self.closed: list[int] = []
        self.current: list[int] = []
        there = replace(GPU, gpu="another", capability=(8, 6)), GPU
        monkeypatch.setattr(building, "board", there.__getitem__)
        monkeypatch.setattr(building, "open_driver", self._open)

    def _open(self, index: int) -> SimpleNamespace:
        self.opened.append(index)

        def current() -> contextlib.nullcontext[None]:
            assert self.opened.count(index) == self.closed.count(index) + 1
            self.current.append(index)
            return contextlib.nullcontext()

        return SimpleNamespace(current=current, close=lambda: self.closed.append(index))


class TestTile:
    """One graph, one plan."""

    def test_a_graph_that_is_none(self, tmp_path) -> None:
        (tmp_path / "encoder.onnx").write_bytes(b"no graph")
        with pytest.raises(DeviceError, match=r"TensorRT cannot read encoder\.onnx"):
            build_tile(work(), tmp_path / "encoder.onnx", Signature({}, {}), [])

    @pytest.mark.parametrize(
        ("inputs", "outputs", "said"),
        [
            ({"x": ("float32", ("B", 4))}, {"z": ("float32", ("B", 4))}, "output y of small"),
            ({"x": ("float16", ("B", 4))}, {"y": ("float32", ("B", 4))}, "input x of small is"),
            ({"x": ("float32", ("B", 5))}, {"y": ("float32", ("B", 4))}, "float32[-1, 4], not"),
            ({"x": ("float32", (1, 4))}, {"y": ("float32", ("B", 4))}, "not float32[1, 4]"),
            ({}, {"y": ("float32", ("B", 4))}, "input x of small is float32[-1, 4], not wanted"),
        ],
    )
    def test_tensors_that_are_not_the_contract_s(self, tmp_path, inputs, outputs, said) -> None:
        path = small(tmp_path, "Relu")
        with pytest.raises(DeviceError) as caught:
            build_tile(work(), path, signature(inputs, outputs), [{"B": Range(1, 1, 2)}])
        assert said in str(caught.value)

    def test_a_type_that_no_graph_of_ours_has(self, tmp_path) -> None:
        path = small(tmp_path, "Relu", TensorProto.BFLOAT16)
        with pytest.raises(DeviceError, match="tensor x is BF16"):
            build_tile(work(), path, signature({}, {}), [])

    def test_a_profile_that_is_none_is_refused_with_tensorrt_s_reason(self, tmp_path) -> None:
        path = small(tmp_path, "Relu")
        same = {"x": ("float32", ("B", 4))}, {"y": ("float32", ("B", 4))}
        with pytest.raises(DeviceError, match=r"TensorRT cannot build small: .*profile"):
            build_tile(work(), path, signature(*same), [])

    @pytest.mark.parametrize(("rows", "fails"), [(1, False), (64, True)])
    def test_nothing_of_tensorrt_s_outlives_the_call(
        self, made_up, made_up_store, rows, fails, monkeypatch
    ) -> None:
        alive: weakref.WeakSet = weakref.WeakSet()
        make = one_tile.make_logger

        def recorded(*arguments, **options):
            logger = make(*arguments, **options)
            alive.add(logger)  # a builder keeps its logger, a network its builder
            return logger

        monkeypatch.setattr(one_tile, "make_logger", recorded)
        small = replace(work(), workspace=32 * MB)
        path = made_up_store.graphs(made_up) / "encoder.onnx"
        most = ranges(made_up, rows, 16_000 * (600 if fails else 1))
        error = None
        gc.disable()
        try:
            build_tile(small, path, signatures(made_up, "fp32")["encoder"], [most])
        except DeviceError as caught:
            error = caught
        finally:
            gc.enable()
        assert (error is not None) == fails
        assert not alive

    def test_a_workspace_that_is_too_small_names_the_options(self, made_up, made_up_store) -> None:
        path = made_up_store.graphs(made_up) / "encoder.onnx"
        most = ranges(made_up, 64, 16_000 * 600)
        with pytest.raises(DeviceError) as caught:
            build_tile(
                replace(work(), workspace=1), path, signatures(made_up, "fp32")["encoder"], [most]
            )
        assert caught.value.message == "encoder does not fit into a workspace of 0 MB"
        assert caught.value.fix == "Raise --workspace-mb, or lower --rows."


def work() -> Work:
    return Work(find_tensorrt("tensorrt_rtx"), 64 * MB, timings=Timings())


def signature(inputs, outputs) -> Signature:
    import numpy as np

    made = [
        {name: Tensor(np.dtype(dtype), dims) for name, (dtype, dims) in each.items()}
        for each in (inputs, outputs)
    ]
    return Signature(*made)


def small(folder: Path, operator: str, dtype: int = TensorProto.FLOAT) -> Path:
    """y = operator(x), (B, 4)."""
    tensors = [helper.make_tensor_value_info(name, dtype, ("B", 4)) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], ["y"])], "small", tensors[:1], tensors[1:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, folder / "small.onnx")
    return folder / "small.onnx"


def test_the_contract_is_what_the_exporter_writes(made_up, made_up_store) -> None:
    for precision, tiles in (("fp32", (1, 2)), ("fp16", (3,)), ("fp32", (1, 1, 1))):
        cut = msgspec.structs.replace(made_up, decoder_tiles=tiles)
        graphs = made_up_store.graphs(cut, precision)
        wanted = signatures(cut, precision)
        assert {path.stem for path in graphs.glob("*.onnx")} == wanted.keys()
        for name, each in wanted.items():
            graph = onnx.load(graphs / f"{name}.onnx").graph
            for tensors, values in ((each.inputs, graph.input), (each.outputs, graph.output)):
                assert {v.name: described(v) for v in values} == {
                    key: (tensor.dtype, tensor.dims) for key, tensor in tensors.items()
                }


def described(value) -> tuple:
    tensor = value.type.tensor_type
    dims = tuple(size.dim_param or size.dim_value for size in tensor.shape.dim)
    return helper.tensor_dtype_to_np_dtype(tensor.elem_type), dims


def test_ranges_reach_from_one_frame_to_the_longest_row(made_up) -> None:
    found = ranges(made_up, 3, 278_400)
    # One frame takes 127 + 64·(6 + 3·2) samples, as the recipe's kernels and strides say.
    assert found["N"] == Range(895, 128_000, 278_400)
    assert found["T"] == Range(1, made_up.architecture.frames(128_000), 723)
    assert found["B"] == Range(1, 1, 3)
    assert found["Q"] == Range(1, 16, 16)
    assert ranges(made_up, 1, 895)["T"] == Range(1, 1, 1)


def test_steps_have_a_profile_of_their_own_in_tensorrt_proper(made_up) -> None:
    most = ranges(made_up, 3, 278_400)
    tiles = signatures(made_up, "fp16")
    assert profiles(tiles["layers_0_1"], most, "tensorrt_rtx") == (most,)
    assert profiles(tiles["encoder"], most, "tensorrt") == (most,)
    for name in ("embedding", "layers_0_1", "layers_1_3"):
        step, draft = profiles(tiles[name], most, "tensorrt")
        assert step["Q"] == Range(1, 1, 1)
        assert draft["Q"] == Range(1, 16, 16)
        assert step["T"] == draft["T"] == most["T"]

"""The real model in integers: its bytes, its text, every tile in onnxruntime and TensorRT-RTX."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edge_runtime.audio import RATE
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.engines import weights as readers
from edge_runtime.engines.calibrate.observe import Observer
from edge_runtime.engines.calibrate.scheme import Product, Scheme, step
from edge_runtime.engines.calibrate.smoothing import Channels, absorbed, factors
from edge_runtime.engines.calibrate.write import Floats, floats, write
from edge_runtime.engines.export import moonshine
from edge_runtime.words import total

CLIPS = ["1867-154075-0005", "7367-86737-0006", "1089-134691-0001"]
WIDE = ("encoder.conv1", "encoder.conv3")
INTEGERS = 0.1
"""How close the two best logits must be for a difference to be excused."""


@pytest.fixture(scope="module")
def full(recipe, weights_folder) -> Floats:
    return floats(recipe, readers.read(recipe, weights_folder))


@pytest.fixture(scope="module")
def scheme(recipe, full, runner, decode, spoken) -> Scheme:
    """The largest values of three clips, smoothed where that is free."""
    observer = Observer(full.graphs, full.weights["table"], moonshine.shape(recipe))
    channels = Channels()
    for name in CLIPS:
        (said,) = decode(runner, spoken(name))
        observer(spoken(name), said.tokens, channels.seen)
    free = set().union(*(absorbed(model, full.weights) for model in full.graphs.values()))
    products = {}
    for name, largest in channels.largest.items():
        smooth = factors(name, largest, full.weights[name]) if name in free else ()
        reach = float((largest / np.array(smooth or [1.0], np.float32)).max())
        products[name] = Product(scale=step(reach), smooth=smooth)
        if any(part in name for part in WIDE):
            products[name] = Product(precision="fp32")
    return Scheme(products=products)


@pytest.fixture(scope="module")
def folder(recipe, weights_folder, scheme, tmp_path_factory):
    made: dict[tuple[str, str], Path] = {}

    def written(spelling: str, base: str = "fp32") -> Path:
        key = (spelling, base)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("graphs")
            write(recipe, weights_folder, scheme, made[key], spelling, base)
        return made[key]

    return written


@pytest.fixture(scope="module")
def integers(folder, loaded) -> Runner:
    return Runner(Chain(loaded.device, folder("unsigned")), Size(3, 17 * RATE))


def test_less_than_three_tenths_of_the_bytes(folder, full) -> None:
    before = sum(weight.nbytes for weight in full.weights.values())
    for spelling, base in (("unsigned", "fp32"), ("signed", "fp32"), ("signed", "fp16")):
        made = folder(spelling, base)
        paths = [*made.glob("*.onnx"), made / "table.npy"]
        assert sum(path.stat().st_size for path in paths) <= 0.30 * before


def test_the_text_hardly_changes(integers, runner, decode, loaded, spoken, shared) -> None:
    text = loaded.model.vocabulary.text
    others = ["1088-134315-0002", "1088-134315-0003"]  # which no range saw
    clips = [*(spoken(name) for name in CLIPS), *(shared(name) for name in others)]
    pairs = [
        (text(decode(runner, clip)[0].tokens), text(decode(integers, clip)[0].tokens))
        for clip in clips
    ]
    assert total(pairs).rate <= 4.0


def test_a_batch_of_one_length_gives_the_same(integers, decode, told, excused, spoken) -> None:
    length = min(len(spoken(name)) for name in CLIPS)
    clips = [spoken(name)[:length] for name in CLIPS]
    together = decode(integers, *clips)
    for row, clip in enumerate(clips):
        expected = decode(integers, clip)[0]

        def again(forced: tuple[int, ...], row: int = row):
            return told(decode(integers, *clips, forced=forced)[row] if forced else together[row])

        assert together[row].frame_count == expected.frame_count
        excused(told(expected), again, INTEGERS)


def test_passes_of_many_tokens_and_of_one_agree(
    integers, decode, greedy, told, excused, spoken
) -> None:
    from edge_runtime.decode.lane import Lane

    clip = spoken(CLIPS[0])
    lane = Lane(integers.chain, Size(1, len(clip)))
    expected = told(decode(integers, clip)[0])
    excused(expected, lambda forced: greedy(lane, clip, forced), INTEGERS)


def test_the_same_scheme_gives_the_same_bytes(
    recipe, weights_folder, scheme, folder, tmp_path
) -> None:
    write(recipe, weights_folder, scheme, tmp_path, "unsigned")
    before = folder("unsigned")
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in before.iterdir()}
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (before / path.name).read_bytes(), path.name


@pytest.mark.parametrize("base", ["fp32", "fp16"])
def test_every_tile_builds_in_tensorrt(folder, base) -> None:
    if importlib.util.find_spec("tensorrt_rtx_bindings") is None:
        pytest.skip("TensorRT-RTX is not installed: pip install .[rtx]")
    from edge_runtime.device.tensorrt.module import find_tensorrt
    from edge_runtime.engines.build import tile as builder
    from edge_runtime.engines.build.contract import Signature, Tensor
    from edge_runtime.engines.build.memory import MB
    from edge_runtime.engines.build.profiles import Range

    ranges = {"B": Range(1, 1, 2), "N": Range(895, 32_000, 64_000), "T": Range(1, 80, 170),
              "Q": Range(1, 16, 32)}  # fmt: skip

    def tensor(kind: onnx.TypeProto.Tensor) -> Tensor:
        dims = tuple(size.dim_param or size.dim_value for size in kind.shape.dim)
        return Tensor(np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type)), dims)

    work = builder.Work(find_tensorrt("tensorrt_rtx"), 512 * MB)
    paths = sorted(folder("signed", base).glob("*.onnx"))
    assert len(paths) == 4
    for path in paths:
        graph = onnx.load(path).graph
        signature = Signature(
            *({value.name: tensor(value.type.tensor_type) for value in values}
              for values in (graph.input, graph.output))
        )  # fmt: skip
        free = {
            size for each in signature.inputs.values() for size in each.dims
            if isinstance(size, str)
        }  # fmt: skip
        plan = builder.build_tile(work, path, signature, [{name: ranges[name] for name in free}])
        assert plan.nbytes > path.stat().st_size

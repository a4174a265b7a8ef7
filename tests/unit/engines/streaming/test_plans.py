"""What is made of published transducers is what TensorRT reads and builds, in batches too."""

from __future__ import annotations

import onnx
import pytest

from edge_runtime.device.tensorrt.logger import make_logger
from edge_runtime.device.tensorrt.module import find_tensorrt
from edge_runtime.engines.build.contract import Signature, Tensor
from edge_runtime.engines.build.profiles import Range
from edge_runtime.engines.build.tile import Work, build_tile, found, parse
from edge_runtime.engines.export.streaming import greedy, published
from tests.tiny import fastconformer, making, moonshine_streaming, zipformer

pytestmark = pytest.mark.usefixtures("needs_rtx")


@pytest.mark.parametrize(
    ("write", "built"),
    # All four were built once, and with all of their steps: it takes 10 s.
    [(zipformer.write, "encoder"), (fastconformer.write, "few")],
    ids=["zipformer", "fastconformer"],
)
def test_tensorrt_reads_and_builds_them(tmp_path, write, built):
    folder, graphs = making.exported(tmp_path, write)
    work = Work(find_tensorrt("tensorrt_rtx"), 1 << 28)
    api = work.tensorrt.api
    model = published.find(folder)
    few = graphs / "few.onnx"
    # Unrolled, the loop takes longest to build: two steps of it hold all that there is in it.
    onnx.save(greedy.graph(model, blank=0, symbols=1, steps=2), few)
    for path in (graphs / "encoder.onnx", graphs / "greedy.onnx", few):
        said: list[str] = []
        logger = make_logger(work.tensorrt, said.append, aloud=False)
        signature = _open(found(parse(api, api.Builder(logger), logger, path)))
        tensors = [*signature.inputs.values(), *signature.outputs.values()]
        assert all(each.dims[0] == "B" and "B" not in each.dims[1:] for each in tensors), said
        if path.stem == built:
            plan = build_tile(work, path, signature, [{"B": Range(1, 1, 4)}])
            assert len(bytes(plan)) > 100_000


def test_tensorrt_reads_the_programs_of_a_growing_memory(tmp_path):
    _, graphs = making.exported(tmp_path, moonshine_streaming.write, recipe=making.growing)
    work = Work(find_tensorrt("tensorrt_rtx"), 1 << 28)
    api = work.tensorrt.api
    letters = {
        "decoder_kv": {
            "token": (1, "Q"), "k_self": (2, 1, 2, "P", 6), "v_self": (2, 1, 2, "P", 6),
            "out_k_cross": (2, 1, 2, "T", 6), "out_v_cross": (2, 1, 2, "T", 6),
        },
    }  # fmt: skip
    ranges = {"Q": Range(1, 1, 16), "P": Range(1, 16, 32), "T": Range(4, 40, 80)}
    for path in sorted(graphs.glob("*.onnx")):
        logger = make_logger(work.tensorrt, [].append, aloud=False)
        signature = found(parse(api, api.Builder(logger), logger, path))
        if path.stem not in letters:
            continue
        inputs = {
            name: Tensor(each.dtype, letters[path.stem][name])
            for name, each in signature.inputs.items()
        }
        plan = build_tile(work, path, Signature(inputs, signature.outputs), [ranges])
        assert len(bytes(plan)) > 100_000


def _open(signature: Signature) -> Signature:
    """With the batch as the one free dimension."""

    def opened(tensors: dict) -> dict:
        return {
            name: Tensor(each.dtype, tuple("B" if size == -1 else size for size in each.dims))
            for name, each in tensors.items()
        }

    return Signature(opened(signature.inputs), opened(signature.outputs))

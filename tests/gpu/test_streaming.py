"""True streaming models on a GPU: what the CPU says, from pieces and in batches."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.decode.chunked.chain import ChunkChain
from edge_runtime.decode.chunked.runner import ChunkRunner
from edge_runtime.decode.family import make_runners
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.device import Device, open_device
from edge_runtime.device.cuda import present
from edge_runtime.engines.build import chunked
from edge_runtime.engines.build.profiles import Range
from edge_runtime.engines.build.tile import Work, build_tile
from edge_runtime.errors import EdgeRuntimeError
from tests.tiny import fastconformer, making, zipformer

RATE, ROWS = 16000, 4
NEAR = 0.01
"""Leads over the second best token that rounding may turn."""


@pytest.fixture(params=[zipformer.write, fastconformer.write], ids=["zipformer", "fastconformer"])
def graphs(request, tmp_path) -> Path:
    return making.exported(tmp_path, request.param, symbols=3)[1]


@pytest.fixture(params=["tensorrt", "onnx-cuda"])
def device(request, graphs) -> Iterator[Device]:
    if not present():
        pytest.skip("no NVIDIA GPU on this machine")
    try:
        made = open_device(request.param)
    except EdgeRuntimeError as error:
        pytest.skip(str(error))
    if request.param == "tensorrt":
        _plans(graphs, made)
    yield made
    made.close()


def _plans(graphs: Path, device) -> None:
    """Built for this GPU, as `edge-runtime build` does it."""
    work = Work(device.tensorrt, 1 << 30, current=device.driver.current)
    for name, signature in chunked.signatures(graphs).items():
        path = graphs / f"{name}.onnx"
        plan = build_tile(work, path, signature, [{"B": Range(1, 1, ROWS)}])
        path.with_suffix(".plan").write_bytes(bytes(plan))


def sound(seed: int, seconds: float) -> np.ndarray:
    random = np.random.default_rng(seed)
    loud = np.repeat(random.uniform(0, 1, int(seconds * 100)), 160)
    return (random.normal(0, 0.1, len(loud)) * loud).astype(np.float32)


def finals(runner: ChunkRunner, sounds: list[np.ndarray], name: str) -> list[Hypothesis]:
    asked = [
        Update(name, n, Purpose.FINAL, 0, len(each), slot=n % len(runner.slots))
        for n, each in enumerate(sounds)
    ]
    step = runner.size.rows
    return [
        said
        for first in range(0, len(asked), step)
        for said in runner.run(
            asked[first : first + step], [[each] for each in sounds[first : first + step]]
        )
    ]


def same(ours: Hypothesis, theirs: Hypothesis) -> bool:
    """Token for token, up to where two tokens were as good as each other."""
    pairs = zip(ours.tokens, theirs.tokens, theirs.margins, strict=False)
    for one, other, margin in pairs:
        if one != other:
            return margin < NEAR
    return True


@pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="no onnx to build with")
def test_a_gpu_says_what_the_cpu_says(graphs, device) -> None:
    (cpu,) = make_runners(ChunkChain(open_device("cpu"), graphs), Size(1, 20 * RATE), 1, slots=1)
    (gpu,) = make_runners(ChunkChain(device, graphs), Size(ROWS, 20 * RATE), 1, slots=ROWS)
    gpu.warm()
    sounds = [sound(seed, 2.0 + seed / 3) for seed in range(ROWS)]
    wanted = finals(cpu, sounds, "whole")
    assert all(map(same, finals(gpu, sounds, "whole"), wanted))
    # From pieces, in other company each time.
    for end in (9_000, 16_000, 30_000):
        part = [
            Update("s", n, Purpose.PARTIAL, 0, end, slot=n)
            for n in range(ROWS)
            if n % 2 or end > 9_000
        ]
        gpu.run(part, [[sounds[each.segment][:end]] for each in part])
    assert all(map(same, finals(gpu, sounds, "s"), wanted))
    budget = getattr(device, "budget", None)
    before = budget.taken if budget is not None else 0
    finals(gpu, sounds, "again")
    assert (budget.taken if budget is not None else 0) == before, "something was allocated"

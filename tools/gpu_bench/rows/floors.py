"""What a step cannot be faster than: its bytes over the bandwidth, its kernels' launches."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.device.cuda.module import Module
from edge_runtime.device.cuda.nvrtc import compiled
from edge_runtime.device.cuda.status import check
from edge_runtime.engines.architecture import MoonshineArchitecture
from edge_runtime.engines.recipe import MoonshineRecipe, load_recipe
from edge_runtime.engines.variant import INT8
from gpu_bench import timing
from gpu_bench.bench import Bench
from gpu_bench.rows.passes import Work

KERNELS = 100
SOURCE = Path(__file__).parents[1] / "nothing.cu"
_LARGE, _CACHED = 1 << 30, 8 << 20


@dataclass(frozen=True)
class Moved:
    """Bytes that one step of one stream reads and writes, by what they are."""

    weights: int
    table: int
    cache: int
    memory: int

    @property
    def total(self) -> int:
        return self.weights + self.table + self.cache + self.memory

    def __str__(self) -> str:
        parts = ", ".join(f"{n} {getattr(self, n) / 1e6:.2f}" for n in self.__dataclass_fields__)
        return f"{parts} MB"


def moved(
    shape: MoonshineArchitecture, itemsize: int, frames: int, weights: int = 0, table: int = 0
) -> Moved:
    """Of a step against `frames` of memory, everything read once, the caches written as well.

    `weights` and `table` are the bytes of one of theirs, where they are not `itemsize`. Heads as
    wide as the model has them: that engines pad them is not the work's fault.
    """
    width, inner, layers = shape.width, shape.decoder_mlp, shape.decoder_layers
    heads = shape.heads * shape.head_dim
    layer = 6 * width * heads + 2 * width * inner + inner * width + 2 * inner + 4 * width
    cache = 2 * layers * heads * shape.past
    return Moved(
        weights=(weights or itemsize) * (layers * layer + width),
        table=(table or itemsize) * shape.vocabulary * width,
        cache=2 * itemsize * cache,
        memory=itemsize * 2 * layers * heads * frames,
    )


def measure(bench: Bench) -> None:
    """Adds `floor.*` of a step in every precision, and which of the two binds."""
    recipe = load_recipe(bench.options.model)
    assert isinstance(recipe, MoonshineRecipe)
    first = bench.bed(bench.precisions[-1])
    speed = _bandwidth(bench, first.device)
    bench.attempt("floors launches", _launch, bench, first)
    for precision in reversed(bench.precisions):
        own = Work(bench.bed(precision))
        # A pass that was not timed yet is captured by this.
        own.passing(own.step)()
        own.lane.stream.synchronize()
        chain = own.lane.chain
        size = moved(
            recipe.architecture,
            chain.dtype.itemsize,
            own.frames,
            weights=1 if precision == INT8 else 0,
            table=chain.table.dtype.itemsize,
        )
        _floors(bench, precision, size, speed, own.nodes(own.step))


def _floors(bench: Bench, precision: str, size: Moved, speed: float, nodes: dict[str, int]) -> None:
    bytes_floor = 1e6 * size.total / speed
    bench.add(
        f"floor.{precision}.bytes",
        f"{precision}: a step's bytes over the copy bandwidth",
        bytes_floor,
        "µs",
        f"{size.total / 1e6:.1f} MB: {size}; {speed / 1e12:.2f} TB/s",
    )
    kernel = bench.figures.value("floor.kernel")
    if kernel is None or not nodes:
        return
    count = sum(nodes.values())
    launches = count * kernel
    bench.add(
        f"floor.{precision}.launches",
        f"{precision}: a step's nodes at the time of an empty kernel in a graph",
        launches,
        "µs",
        f"{count} nodes ({nodes.get('kernel', 0)} kernels) × {kernel:.2f} µs; "
        f"{'launches' if launches > bytes_floor else 'bytes'} bind",
    )
    measured = bench.figures.value(f"step.{precision}.device")
    if measured is not None:
        bench.add(
            f"floor.{precision}.above",
            f"{precision}: a step's time of the device over the floor that binds",
            measured / max(launches, bytes_floor),
            "×",
            f"{measured:.3g} µs",
        )


def _bandwidth(bench: Bench, device: Any) -> float:
    """Bytes a second, read and written; from memory, and beside it what fits the cache."""
    stream, found = device.stream(), []
    free, _ = device.driver.free()
    for size in (min(_LARGE, free // 8), _CACHED):
        source, target = (device.alloc((size,), np.uint8) for _ in "ab")

        def copy(source: Any = source, target: Any = target) -> None:
            device.copy(source, target, stream, "bench")

        taken = timing.device(copy, stream, 20)
        found.append(2 * size / taken.at(50))
    large, cached = found
    bench.add(
        "floor.bandwidth",
        "copy bandwidth of the card, read and written",
        large / 1e12,
        "TB/s",
        f"1 GiB at most; {cached / 1e12:.2f} TB/s in {_CACHED >> 20} MiB, which a cache may hold: "
        "on a card whose cache holds the weights, bytes are no floor",
    )
    return large


def _launch(bench: Bench, made: Any) -> None:
    """Microseconds of an empty kernel among a hundred in a graph."""
    from cuda.bindings import driver as cuda

    device, stream = made.device, made.runner.lane.stream
    code = compiled(SOURCE, device.driver.capability, {})
    module = Module(device.driver, code, [SOURCE.stem])
    kernel, handle = module.kernels[SOURCE.stem], cuda.CUstream(stream.handle)

    arguments = ((0,), (ctypes.c_int,))

    def launches() -> None:
        launch = cuda.cuLaunchKernel
        for _ in range(KERNELS):
            check("cuLaunchKernel", launch(kernel, 1, 1, 1, 32, 1, 1, 0, handle, arguments, 0))

    graph = device.capture(launches, stream)
    try:
        whole = timing.device(graph.replay, stream, 100).at(50)
        steady = timing.behind_each_other(graph.replay, stream, 100)
    finally:
        graph.close()
        module.close()
    bench.add(
        "floor.kernel",
        f"an empty kernel in a graph of {KERNELS}",
        1e6 * whole / KERNELS,
        "µs",
        f"{1e6 * steady / KERNELS:.2f} µs where graphs follow each other",
    )

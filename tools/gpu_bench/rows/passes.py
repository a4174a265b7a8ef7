"""Encoder, draft check and steps of an 8 s segment, from graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from edge_runtime.decode.passes import Pass
from edge_runtime.device.base import Call
from edge_runtime.engines.engine import engines
from edge_runtime.engines.store import Store
from gpu_bench import timing
from gpu_bench.bed import Bed
from gpu_bench.bench import Bench
from gpu_bench.segment import DRAFT, SAMPLES


class Work:
    """What is timed on one lane: its encoder and passes for eight seconds of audio."""

    def __init__(self, bed: Bed) -> None:
        self.lane = bed.runner.lane
        self.samples = bed.buckets.samples(SAMPLES)
        self.frames = self.lane.chain.shape.frames(self.samples)
        self.check = Pass(1, bed.buckets.queries(DRAFT + 1), self.frames)
        self.step = Pass(1, 1, self.frames)
        self.lane.length.host.host[0] = SAMPLES

    def encode(self, tiled: bool = False) -> None:
        self.lane.encode(1, self.samples, tiled)

    def passing(self, shape: Pass) -> Call:
        """A pass of that shape: checks from the first token on, steps where the draft ended.

        What it is fed is written now, so make one after the other was used.
        """
        self.lane.tokens(shape)[...] = 3
        self.lane.positions(shape)[...] = 0 if shape.queries > 1 else DRAFT + 1
        return lambda: self.lane.decode(shape)

    def both(self) -> Call:
        """Encoder and draft check: the work that another system is compared by."""
        check = self.passing(self.check)

        def run() -> None:
            self.encode()
            check()

        return run

    def nodes(self, shape: Pass | bool) -> dict[str, int]:
        """What was captured, by kind; empty without a graph. Of a pass, or of the encoder:
        through its tile or not.
        """
        key = shape if isinstance(shape, Pass) else ("encode", 0, 1, self.samples, shape)
        try:
            graph = self.lane.graphs.get(key, _absent)
        except LookupError:
            return {}
        return dict(getattr(graph, "nodes", {}))


def measure(bench: Bench) -> None:
    """Adds `encode.*`, `check.*`, `step.*` and `work.*` in every precision."""
    for precision in reversed(bench.precisions):
        bench.attempt(f"passes {precision}", _passes, bench, precision)


def work(bench: Bench, precision: str) -> float:
    """Milliseconds of encoder and draft check together, measured now where they were not."""
    known = bench.figures.value(f"work.{precision}.p50")
    if known is None:
        bed = bench.bed(precision)
        own = Work(bed)
        taken = timing.host(own.both(), own.lane.stream, bench.options.count)
        known = taken.ms
        _add(bench, f"work.{precision}", "encoder and draft check in one go", taken, "ms")
    return known


def _passes(bench: Bench, precision: str) -> None:
    own = Work(bench.bed(precision))
    chain, check, step = own.lane.chain, own.check, own.step
    _one(bench, own, f"encode.{precision}", "encoder", own.encode, False)
    _one(
        bench, own, f"check.{precision}", f"draft check of {DRAFT} tokens",
        own.passing(check), check,
    )  # fmt: skip
    _one(bench, own, f"step.{precision}", "one step", own.passing(step), step, "us")
    work(bench, precision)
    if bench.options.device == "tensorrt":
        _bytes(bench, precision)
    if chain.has_own:
        _tiles(bench, own, precision)
    if chain.device.chained > 1:
        many = replace(step, steps=chain.device.chained)
        _one(
            bench, own, f"chain.{precision}", f"{many.steps} steps in one graph",
            own.passing(many), many, "us",
        )  # fmt: skip


def _bytes(bench: Bench, precision: str) -> None:
    """What the newest engine of that precision takes: its plans and its table."""
    found = [
        each for each in engines(Store(), bench.options.model) if each.info.precision == precision
    ]
    if not found:  # it was loaded from elsewhere
        return
    folder = max(found, key=lambda each: each.info.built).folder
    sizes = {path.name: path.stat().st_size for path in sorted(folder.glob("*.plan"))}
    sizes["table.npy"] = (folder / "table.npy").stat().st_size
    told = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in sizes.items())
    bench.add(
        f"bytes.{precision}",
        f"{precision}: bytes of the engine's plans and table",
        sum(sizes.values()) / 1e6,
        "MB",
        told,
    )


def _tiles(bench: Bench, own: Work, precision: str) -> None:
    """The same passes through the tiles; and which of them go there by themselves."""
    bench.add(
        f"tiles.{precision}",
        f"{precision}: sizes of passes and of audio that the warm-up sends through the tiles",
        len(own.lane.tiled.queries) + len(own.lane.tiled.samples),
        "",
        f"{sorted(own.lane.tiled.queries)} of {list(own.lane.buckets.query_sizes)} tokens, "
        f"{sorted(own.lane.tiled.samples)} of {list(own.lane.buckets.sample_sizes)} samples",
    )
    label = "encoder, through the tile"
    _one(bench, own, f"encode.{precision}.tiles", label, partial(own.encode, True), True)
    for name, pass_, unit in (("step", own.step, "us"), ("check", own.check, "ms")):
        shape = replace(pass_, tiled=True)
        label = f"{name}, through the tiles"
        _one(bench, own, f"{name}.{precision}.tiles", label, own.passing(shape), shape, unit)


def _one(
    bench: Bench,
    own: Work,
    name: str,
    label: str,
    call: Callable[[], None],
    shape: Pass | bool,
    unit: str = "ms",
) -> None:
    stream, count = own.lane.stream, bench.options.count
    taken = timing.host(call, stream, count)
    _add(bench, name, label, taken, unit)
    on_device = timing.device(call, stream, count)
    scale = 1e3 if unit == "ms" else 1e6
    shown = "ms" if unit == "ms" else "µs"
    steady = scale * timing.behind_each_other(call, stream, 100)
    bench.add(
        f"{name}.device",
        f"{label}: time of the device alone",
        scale * on_device.at(50),
        shown,
        f"{on_device.note(unit)}; one after the other without a wait {steady:.3g} {shown}",
    )
    nodes = own.nodes(shape)
    if nodes:
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(nodes.items()))
        bench.add(f"{name}.kernels", f"{label}: kernels", nodes.get("kernel", 0), "", told)


def _add(bench: Bench, name: str, label: str, taken: timing.Times, unit: str) -> None:
    value, shown = (taken.ms, "ms") if unit == "ms" else (taken.us, "µs")
    bench.add(f"{name}.p50", f"{label}, with the wait", value, shown, taken.note(unit))


def _absent() -> Call:
    raise LookupError("that was never captured")

"""The same update computed otherwise: what each default is chosen by."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from edge_runtime.decode.passes import Tiled
from edge_runtime.decode.runner import Runner
from edge_runtime.errors import DeviceError
from gpu_bench import bed, load, timing
from gpu_bench.bed import changed
from gpu_bench.bench import Bench
from gpu_bench.segment import Segment

COUNT = 150
SESSIONS = 4
CHAINED = (1, 2, 4, 8)


def measure(bench: Bench) -> None:
    """Adds `table.*`: the median of an update, and updates a second."""
    for precision in reversed(bench.precisions):
        bench.attempt(f"table {precision}", _precision, bench, precision)
    bench.attempt("table gather", _gather, bench)


def _precision(bench: Bench, precision: str) -> None:
    made = bench.bed(precision)
    _one(bench, precision, "default", f"as it is, chained {made.device.chained}")
    # The rest in the precision that serves.
    if precision != bench.precisions[-1]:
        return
    device, own = made.device, made.runner.lane
    for count in CHAINED:
        _one(bench, precision, f"chained.{count}", f"chained {count}", (device, "chained", count))
    if hasattr(device, "graphs"):
        _one(bench, precision, "graphs.off", "graphs off", (device, "graphs", False))
    if made.loaded.chain.has_own:
        buckets = own.buckets
        everything = Tiled(frozenset(buckets.query_sizes), frozenset(buckets.sample_sizes))
        for name, label, tiled in (
            ("kernels.off", "everything through the tiles", everything),
            ("kernels.on", "everything through our kernels", Tiled()),
        ):
            _one(bench, precision, name, label, (own, "tiled", tiled))
    for lanes in (1, 2):
        bench.attempt(f"table lanes {lanes}", _lanes, bench, precision, lanes)


def _one(
    bench: Bench,
    precision: str,
    name: str,
    label: str,
    change: tuple[Any, str, object] | None = None,
) -> None:
    """An update on a lane of its own, made while an attribute has another value."""
    with changed(*change) if change is not None else contextlib.nullcontext():
        bench.attempt(
            f"table {name}", _update, bench, f"table.{precision}.{name}", label, precision
        )


def _update(bench: Bench, name: str, label: str, precision: str) -> None:
    made, segment = bench.bed(precision), bench.segment(precision)
    runner = made.another()
    call = _call(runner, segment)
    taken = timing.times(call, min(COUNT, bench.options.count))
    waits = call().cost.waits
    bench.add(
        name,
        f"{precision}, {label}: one update",
        taken.ms,
        "ms",
        f"{taken.rate:.0f} updates/s, {waits} waits; {taken.note()}",
    )
    runner.lane.graphs.close()


def _call(runner: Runner, segment: Segment) -> Callable[[], Any]:
    return lambda: bed.decoded(runner, segment.pieces, segment.draft)


def _lanes(bench: Bench, precision: str, lanes: int) -> None:
    made, segment = bench.bed(precision), bench.segment(precision)
    runners = [made.another() for _ in range(lanes)]
    for runner in runners:
        for _ in range(timing.WARM):
            _call(runner, segment)()
    found = load.run(runners, segment.pieces, segment.draft, SESSIONS, 4 * COUNT)
    bench.add(
        f"table.{precision}.lanes.{lanes}",
        f"{precision}, {lanes} lane{'s' if lanes > 1 else ''}, {SESSIONS} sessions: updates",
        found.rate,
        "/s",
        f"latency of one, its queue included: p50 {found.latency.ms:.3g} ms, "
        f"{found.latency.note()}",
    )
    for runner in runners:
        runner.lane.graphs.close()


def _gather(bench: Bench) -> None:
    """Audio gathered by a kernel of ours, against copies; the ring is mapped in both."""
    precision = bench.precisions[-1]
    made, segment = bench.bed(precision), bench.segment(precision)
    # What the device has now comes back afterwards.
    with changed(made.device, "gathering", None):
        for way in ("copy", "kernel"):
            if way == "kernel" and not made.device.gather():
                raise DeviceError("no kernel gathers audio here", "The log says why.")
            name = f"table.{precision}.gather.{way}"
            _update(bench, name, f"gather {way}", precision)
            taken = timing.times(lambda: segment.first(made), COUNT)
            bench.add(
                f"{name}.first",
                f"{precision}, gather {way}: first new token",
                taken.ms,
                "ms",
                taken.note(),
            )

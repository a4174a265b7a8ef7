"""One update of an 8 s segment: 25 tokens known, 4 new; and until the first new one."""

from __future__ import annotations

from gpu_bench import timing
from gpu_bench.bench import Bench


def measure(bench: Bench) -> None:
    """Adds `update.*` and `first.*` in every precision."""
    for precision in reversed(bench.precisions):
        bench.attempt(f"update {precision}", _update, bench, precision)


def _update(bench: Bench, precision: str) -> None:
    bed, segment = bench.bed(precision), bench.segment(precision)
    costs = []
    taken = timing.times(lambda: costs.append(segment.update(bed).cost), bench.options.count)
    costs = costs[-len(taken.seconds) :]
    bench.add(
        f"update.{precision}.p50",
        f"{precision}: one update with {segment.new} new tokens",
        taken.ms,
        "ms",
        f"{segment.note}; {taken.note()}",
    )
    bench.add(f"update.{precision}.p99", f"{precision}: the same, p99", 1e3 * taken.at(99), "ms")
    for stage in ("encode", "draft", "decode"):
        spent = [1e3 * getattr(cost, stage) for cost in costs]
        bench.add(
            f"update.{precision}.{stage}",
            f"{precision}: of it, {stage}, time of the device",
            sorted(spent)[len(spent) // 2],
            "ms",
            timing.spread(spent, "ms"),
        )
    waits = [cost.waits for cost in costs]
    bench.add(
        f"update.{precision}.waits",
        f"{precision}: host waits in an update",
        max(waits),
        "",
        f"{costs[-1].passes} passes, {costs[-1].steps} of single tokens; " + timing.spread(waits),
    )
    taken = timing.times(lambda: segment.first(bed), bench.options.count)
    bench.add(
        f"first.{precision}.p50",
        f"{precision}: first new token after the audio is in the ring",
        taken.ms,
        "ms",
        taken.note(),
    )

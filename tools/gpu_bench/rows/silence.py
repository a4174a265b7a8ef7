"""The first update after a minute of silence against a warm one, kept awake and not."""

from __future__ import annotations

from gpu_bench import load, machine
from gpu_bench.bench import Bench

AWAKE_MS = 500


def measure(bench: Bench) -> None:
    """Adds `silence.*`, float16; takes two minutes."""
    precision = bench.precisions[-1]
    bed, segment = bench.bed(precision), bench.segment(precision)
    for name, rest in (("awake", AWAKE_MS / 1000), ("asleep", 0.0)):
        warm, last = load.after(
            bed.runner, segment.pieces, segment.draft, bench.options.silence, rest
        )
        clock = machine.clocks().get("clocks.current.sm", "")
        bench.add(
            f"silence.{name}",
            f"first update after {bench.options.silence:.0f} s of silence over a warm one, "
            f"keep_warm_ms {rest * 1000:.0f}",
            last / warm.at(50),
            "×",
            f"{1e3 * last:.3g} ms over {warm.ms:.3g} ms; SM clock after it {clock or '?'} MHz",
        )

"""What the figures must reach, and the figures that are made of two others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edge_runtime.bench.figure import Figure, Figures, Target

TARGETS = (
    Target("wer.whole", "≤", 4.8, "%"),
    Target("wer.above", "≤", 0.6, "points"),
    Target("wer.above.1000", "≤", 0.3, "points"),
    Target("noisy.wer", "≤", 12.4, "%"),
    Target("noisy.deletions.above", "≤", 1.0, "points"),
    Target("speechless.streamed", "≤", 0),
    Target("speechless.whole", "≤", 0),
    Target("stable.taken_back", "≤", 0),
    Target("stable.broken", "≤", 0),
    Target("stable.share", "≥", 50, "%"),
    Target("stable.lag.p50", "≤", 1.3, "s"),
    Target("stable.conflicts", "≤", 0.5, "%"),
    Target("flicker", "≤", 0.7),
    Target("draft.share", "≥", 78, "%"),
    Target("final.p50", "≤", 580, "ms"),
    Target("final.p95", "≤", 700, "ms"),
    Target("first.p50", "≤", 480, "ms"),
    Target("first.p95", "≤", 700, "ms"),
    Target("first.right", "≥", 75, "%"),
    Target("cpu.of_peer", "≤", 0.5, "×"),
    Target("hour.hop", "≤", 1.1, "×"),
    Target("hour.memory", "≤", 5, "MB"),
    Target("stop.lost", "≤", 0),
    Target("flush.lost", "≤", 0),
    Target("same.fresh", "≤", 0),
    Target("same.after", "≤", 0),
    Target("same.beside", "≤", 0),
    Target("joined.doubled", "≤", 0),
    Target("joined.above", "≤", 1.0, "points"),
    Target("joined.patient.doubled", "≤", 0),
    Target("joined.patient.above", "≤", 1.0, "points"),
    Target("file.cpu", "≤", 0.035, "s/s"),
    Target("file.above", "≤", 0.3, "points"),
    Target("ready", "≤", 3, "s"),
    Target("times.p50", "≤", 80, "ms"),
    Target("times.p90", "≤", 250, "ms"),
    Target("streams", "≥", 10),
    Target("streams.off", "≤", 15, "%"),
)


@dataclass(frozen=True)
class Derived:
    """`left` minus, or over, `right`."""

    name: str
    label: str
    left: str
    operation: Literal["−", "÷"]
    right: str
    unit: str


DERIVED = (
    Derived(
        "wer.above",
        "streamed WER above whole, default endpoint",
        "wer.streamed",
        "−",
        "wer.whole",
        "points",
    ),
    *(
        Derived(
            f"wer.above.{ms}",
            f"streamed WER above whole, endpoint {ms} ms, no partials",
            f"wer.endpoint.{ms}",
            "−",
            "wer.whole",
            "points",
        )
        for ms in (300, 500, 700, 1000)
    ),
    Derived(
        "noisy.deletions.above",
        "noise mixes: streamed deletions above whole",
        "noisy.deletions",
        "−",
        "noisy.deletions.whole",
        "points",
    ),
    Derived(
        "cpu.of_peer", "CPU seconds per audio second over the peer's", "cpu", "÷", "peer.cpu", "×"
    ),
    Derived(
        "joined.above",
        "joined chapter: WER above clip by clip",
        "joined.wer",
        "−",
        "joined.clips",
        "points",
    ),
    Derived(
        "joined.patient.above",
        "the same, endpoint 1000 ms: WER above clip by clip",
        "joined.patient.wer",
        "−",
        "joined.clips",
        "points",
    ),
    Derived("file.above", "file: WER above clip by clip", "file.wer", "−", "file.clips", "points"),
)


def derive(figures: Figures) -> None:
    """Add every figure whose two parts were measured."""
    for derived in DERIVED:
        left, right = figures.value(derived.left), figures.value(derived.right)
        if left is None or right is None or (derived.operation == "÷" and not right):
            continue
        value = left - right if derived.operation == "−" else left / right
        figures.add(Figure(derived.name, derived.label, value, derived.unit))

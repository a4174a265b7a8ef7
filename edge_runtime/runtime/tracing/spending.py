"""How much time each stage took in all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edge_runtime.runtime.tracing.span import Place, Span

ORDER = ("vad", "queue", "update", "encode", "draft", "decode", "merge", "emit")
PLACES: tuple[Place, ...] = ("ears", "lane", "device", "loop")


@dataclass(frozen=True)
class Spent:
    """Seconds of a stage at a place: of all its spans, of the middle one and of the longest."""

    name: str
    place: Place
    times: int
    total: float
    median: float
    longest: float


def spending(spans: Iterable[Span]) -> list[Spent]:
    """One for each stage and place that there is, in the order that an update goes through."""
    found: dict[tuple[str, Place], list[float]] = {}
    for span in spans:
        found.setdefault((span.name, span.place), []).append(span.seconds)
    order = sorted(found, key=lambda key: (ORDER.index(key[0]), PLACES.index(key[1])))
    return [_spent(*key, sorted(found[key])) for key in order]


def _spent(name: str, place: Place, seconds: list[float]) -> Spent:
    middle = seconds[len(seconds) // 2]
    return Spent(name, place, len(seconds), sum(seconds), middle, seconds[-1])

"""How many streams a machine holds, foretold from what few of them cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edge_runtime.bench.met import Met
from edge_runtime.bench.percentile import percentile


@dataclass(frozen=True)
class Foretold:
    """What so many streams are expected to meet; `p95` in seconds, from end of speech to final."""

    streams: int
    p95: float
    level: int
    lanes: float
    """Lanes that are at work, on average."""


def largest(
    holds: Callable[[int], bool],
    most: int,
    told: Callable[[int, int | None], None] | None = None,
    *,
    first: int = 1,
    growth: float = 2.0,
    near: float = 0.0,
) -> int:
    """The largest number up to `most` that holds; 0 where one alone does not.

    From `first` on by steps of `growth`, up or down, then by halves of what is left, until that
    is one, or that part of the number. `told` hears after each try what held and what did not.
    """
    low, high, trying = 0, None, max(1, min(first, most))
    while high is None or high - low > max(1, near * low):
        if holds(trying):
            low = trying
        else:
            high = trying
        if told is not None:
            told(low, high)
        if low == most:
            break
        if high is None:
            trying = min(max(low + 1, int(growth * low)), most)
        else:
            trying = (low + high) // 2 if low else max(1, min(high - 1, int(high / growth)))
    return low


def surely(holds: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` below which, a quarter down, every one holds.

    A search among real ones ends at whichever of them it meets that does not.
    """
    found = number = largest(holds, most)
    while number > found - found // 4:
        if not holds(number):
            found = number - 1
        number -= 1
    return found


def foretold(streams: int, met: Met, seconds: float) -> Foretold:
    """What a rehearsal of so many seconds, the start and the end included, comes to."""
    p95 = percentile(met.finals, 95)
    lanes = round(met.busy / seconds, 3)
    return Foretold(streams, math.inf if p95 is None else p95, met.level, lanes)


def record(foretold: Foretold) -> dict[str, Any]:
    """For a file: latencies in ms."""
    return {
        "streams": foretold.streams,
        "final.p95": 1000 * foretold.p95 if math.isfinite(foretold.p95) else None,
        "level": foretold.level,
        "lanes": foretold.lanes,
    }

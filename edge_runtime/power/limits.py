"""What a hot or frugal board leaves us of its power."""

from __future__ import annotations

import math
from dataclasses import dataclass

LEVELS = 5
"""The last step; 0 is none."""

LANES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.0)
"""The part of the lanes that each level leaves; one lane always stays."""


@dataclass(frozen=True)
class Limits:
    """How far we give way: `level` 0 not at all, to `LEVELS`.

    A hop between two updates of a stream is `hop` times as long, and at most a part `lanes` of
    the device's lanes works at a time: what a GPU does together. `why` says what asked for it.
    In force since second `since` of the clock of the readings; with `relaxed` they were stricter
    before. The next step back to full waits `patience` seconds from there.
    """

    level: int = 0
    hop: float = 1.0
    lanes: float = 1.0
    why: str | None = None
    since: float = -math.inf
    patience: float = 0.0
    relaxed: bool = False

    def most(self, lanes: int) -> int:
        """So many of `lanes` may work at a time."""
        return max(1, int(lanes * self.lanes + 1e-9))


FULL = Limits()
"""Nothing is limited."""


def hop_of(level: int, slowest: float) -> float:
    """Times as long as a hop gets: in even ratios up to `slowest` at the last level."""
    return float(slowest ** (level / LEVELS))

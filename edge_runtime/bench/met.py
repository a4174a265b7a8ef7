"""What streams met in a rehearsal."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from edge_runtime.decode.update import Purpose


@dataclass
class Met:
    """Seconds from the end of speech to the final of each clip whose speech ended in the time that
    counts, and from the end of each clip to the next one; how many updates there were, of how much
    audio each, and how much of all that was new.

    Lanes were `busy` so many seconds, all together, so many of these while others were at work as
    well. `level` is the hardest step of the ladder, `levels` when which was taken, `waits` how long
    each final came after its endpoint.
    """

    finals: list[float] = field(default_factory=list)
    rests: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    updates: Counter[Purpose] = field(default_factory=Counter)
    windows: dict[Purpose, list[float]] = field(
        default_factory=lambda: {purpose: [] for purpose in Purpose}
    )
    gaps: dict[Purpose, float] = field(default_factory=lambda: dict.fromkeys(Purpose, 0.0))
    busy: float = 0.0
    both: float = 0.0
    level: int = 0
    levels: list[tuple[float, int]] = field(default_factory=list)

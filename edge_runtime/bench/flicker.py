"""How often words that were shown are taken back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from edge_runtime.bench.stability import plain
from edge_runtime.bench.take import Take


@dataclass(frozen=True)
class Flicker:
    """Words changed from one display of a segment to the next, and words of the finals.

    `partials`: between partials, case and punctuation ignored. `final`: from the
    last partial to the final. `literal`: between partials, compared as written.
    """

    partials: int = 0
    final: int = 0
    literal: int = 0
    words: int = 0

    def __add__(self, other: Flicker) -> Flicker:
        return Flicker(
            self.partials + other.partials,
            self.final + other.final,
            self.literal + other.literal,
            self.words + other.words,
        )


def changed(before: Sequence[str], after: Sequence[str]) -> int:
    """Words of `before` beyond the beginning that it shares with `after`."""
    same = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        same += 1
    return len(before) - same


def of_displays(displays: Sequence[str], final: str | None) -> Flicker:
    """Of one segment: the texts of its partials in order, then its final."""
    partials = literal = 0
    for before, after in pairwise(displays):
        partials += changed(plain(before), plain(after))
        literal += changed(before.split(), after.split())
    if final is None:
        return Flicker(partials, 0, literal, 0)
    last = changed(plain(displays[-1]), plain(final)) if displays else 0
    return Flicker(partials, last, literal, len(plain(final)))


def of(takes: Sequence[Take]) -> Flicker:
    """Summed over all segments."""
    return sum(
        (
            of_displays(
                [partial.stable + partial.unstable for _, partial in segment.partials],
                segment.final[1].text if segment.final else None,
            )
            for take in takes
            for segment in take.segments()
        ),
        Flicker(),
    )

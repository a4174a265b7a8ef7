"""Whether stable text holds, how much of it there is, and how early."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edge_runtime.bench.take import Segment, Take

_MARKS = re.compile(r"[^\w']+")


def plain(text: str) -> list[str]:
    """Words in lower case without punctuation, one for each word between spaces."""
    return [word for word in (_MARKS.sub("", w) for w in text.lower().split()) if word]


@dataclass(frozen=True)
class Stability:
    """Counts over segments that have a final.

    `taken_back`: partials whose stable text does not begin with the stable text
    before it. `broken`: finals that do not begin with the last stable text.
    `words`: words of the finals; `stable`: those of them that were stable
    before. `conflicts`: stable words that the free decode (`alternative`)
    changes or drops.
    """

    taken_back: int = 0
    broken: int = 0
    words: int = 0
    stable: int = 0
    conflicts: int = 0

    def __add__(self, other: Stability) -> Stability:
        return Stability(
            self.taken_back + other.taken_back,
            self.broken + other.broken,
            self.words + other.words,
            self.stable + other.stable,
            self.conflicts + other.conflicts,
        )


def distance_to_prefix(words: Sequence[str], text: Sequence[str]) -> int:
    """The fewest word edits that turn `words` into some beginning of `text`."""
    row = list(range(len(text) + 1))
    for i, word in enumerate(words, 1):
        previous, row = row, [i]
        for j, other in enumerate(text, 1):
            row.append(min(previous[j - 1] + (word != other), previous[j] + 1, row[j - 1] + 1))
    return min(row)


def of_segment(segment: Segment) -> Stability:
    """Of one segment; without a final only `taken_back` is counted."""
    taken_back, last = 0, ""
    for _, partial in segment.partials:
        taken_back += not partial.stable.startswith(last)
        last = partial.stable
    if segment.final is None:
        return Stability(taken_back)
    final = segment.final[1]
    stable = plain(last)
    conflicts = (
        0 if final.alternative is None else distance_to_prefix(stable, plain(final.alternative))
    )
    words = len(plain(final.text))
    return Stability(
        taken_back, int(not final.text.startswith(last)), words, min(len(stable), words), conflicts
    )


def of(takes: Sequence[Take]) -> Stability:
    """Summed over all segments."""
    return sum((of_segment(segment) for take in takes for segment in take.segments()), Stability())


@dataclass(frozen=True)
class Locked:
    """A word that became stable before its final.

    `word` is its index among the words of all finals of the take; `at` is when
    the partial arrived and `heard` how much audio it had heard (seconds).
    """

    word: int
    at: float
    heard: float


def locked(take: Take) -> list[Locked]:
    """The words of a take that became stable, in order."""
    found: list[Locked] = []
    base = 0
    for segment in take.segments():
        if segment.final is None:
            continue
        words = len(plain(segment.final[1].text))
        known = 0
        for at, partial in segment.partials:
            count = min(len(plain(partial.stable)), words)
            found += [Locked(base + i, at, partial.end) for i in range(known, count)]
            known = max(known, count)
        base += words
    return found

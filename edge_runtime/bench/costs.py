"""What streams ask of the machine, measured while there were few of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edge_runtime.bench.scrape import Scrape

_SECONDS = "edge_runtime_stage_seconds"
_UPDATES = "edge_runtime_updates_total"

PADDING = 0.5
"""Seconds of a window that are not what was said: before its onset, and after its end."""


@dataclass(frozen=True)
class Costs:
    """Seconds, but where said; `talks` are lengths of speech, each with a pause of `pauses` after.

    An update costs `fixed`, and `each` for a second of its window. `guesses` are decoded early for
    a second of speech that went on after all, or ended within a clip.
    `served` and `clients` are processor time for a second of a stream that is not lanes' work, of
    the server (voice detector, sockets) and of the clients on the same machine; the server takes
    `idle` of a second however few there are. `waits` are latencies from end of speech to final
    with few others there.
    """

    fixed: float
    each: float
    guesses: float
    idle: float
    served: float
    clients: float
    waits: tuple[float, ...]
    talks: tuple[float, ...]
    pauses: tuple[float, ...]
    lanes: int = 1
    cores: int = 1
    on_cpu: bool = True

    def update(self, said: float) -> float:
        """What one takes after so many seconds of speech."""
        return self.fixed + self.each * (said + PADDING)

    @property
    def partial(self) -> float:
        """What one takes at a chance moment of speech."""
        return self.update(_so_far(self.talks))


@dataclass(frozen=True)
class Spent:
    """What so many streams took: `grown` are the server's figures, processor time is seconds.

    `server` and `clients` are that of all of them, in `seconds` by the clock.
    """

    streams: int
    seconds: float
    grown: Scrape
    server: float
    clients: float

    @property
    def lanes(self) -> float:
        """Seconds that lanes worked."""
        return busy(self.grown, "partial", "speculative", "final")[0]


def busy(grown: Scrape, *purposes: str) -> tuple[float, float]:
    """Seconds that lanes worked on updates of these purposes, and how many there were."""
    seconds = sum(
        grown.value(f"{_SECONDS}_sum", purpose=purpose, stage=stage) or 0.0
        for purpose in purposes
        for stage in ("encode", "draft", "decode")
    )
    return seconds, sum(grown.value(_UPDATES, purpose=purpose) or 0.0 for purpose in purposes)


def costs(
    spent: Sequence[Spent],
    waits: Sequence[float],
    talks: Sequence[float],
    pauses: Sequence[float],
    *,
    on_cpu: bool,
) -> Costs:
    """From what one stream took, and from what several did: lines through the two.

    What updates take by their window follows from the means of two kinds of them: partials, at
    chance moments of what is said, and those that close it. On a CPU lanes' time is taken off the
    processor's: it is the same.
    """
    turns = np.array(talks)
    early = _so_far(talks) + PADDING
    whole = float(turns.mean()) + PADDING
    partials = [busy(each.grown, "partial") for each in spent]
    closing = [busy(each.grown, "speculative", "final") for each in spent]
    said = sum(_audio(each.grown) for each in spent)
    ended = said / float(turns.mean() + np.mean(pauses))
    guessed = max(0.0, _count(closing) - ended)
    late = (ended * whole + guessed * early) / max(ended + guessed, 1e-9)
    each = (_mean(closing) - _mean(partials)) / (late - early) if late > early else 0.0
    each = min(max(each, 0.0), _mean(partials) / early)
    # Not more than all of it lies in the window, not less than none.
    fixed = max(0.0, _mean(partials) - each * early)
    few, many = spent[0], spent[-1]
    served, idle = _line(
        few.streams, _beside(few, on_cpu=on_cpu), many.streams, _beside(many, on_cpu=on_cpu)
    )
    speech = ended * float(turns.mean())
    return Costs(
        fixed=fixed,
        each=each,
        guesses=guessed / speech if speech else 0.0,
        idle=idle,
        served=served,
        clients=many.clients / many.seconds / many.streams,
        waits=tuple(waits),
        talks=tuple(talks),
        pauses=tuple(pauses),
    )


def _beside(spent: Spent, *, on_cpu: bool) -> float:
    """Processors of the server that are not lanes'."""
    lanes = spent.lanes if on_cpu else 0.0
    return max(0.0, spent.server - lanes) / spent.seconds


def _line(few: int, at_few: float, many: int, at_many: float) -> tuple[float, float]:
    """Rise and foot of the line; from the origin where there is but one point, or it falls."""
    if many == few or at_many <= at_few:
        return at_many / many, 0.0
    rise = min((at_many - at_few) / (many - few), at_many / many)
    return rise, at_many - rise * many


def _so_far(talks: Sequence[float]) -> float:
    """Seconds that were said by a chance moment of speech, on average: long talks have more."""
    each = np.array(talks)
    return float((each**2).mean() / (2 * each.mean()))


def _audio(grown: Scrape) -> float:
    return grown.value("edge_runtime_audio_seconds_total") or 0.0


def _count(kinds: Sequence[tuple[float, float]]) -> float:
    return sum(count for _, count in kinds)


def _mean(kinds: Sequence[tuple[float, float]]) -> float:
    return sum(seconds for seconds, _ in kinds) / max(1.0, _count(kinds))

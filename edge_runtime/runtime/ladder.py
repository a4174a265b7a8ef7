"""Give way when more people speak than the device keeps up with, one written step at a time."""

from __future__ import annotations

import math
import statistics
from collections import deque
from dataclasses import dataclass

HIGH = 0.8
"""Part of the lanes' time that may be asked for: updates come in bunches, and finals want room."""

LOW = 0.6
"""Part that the easier step may ask for before it is gone back to."""

RISE = 1.0
"""Seconds from one step up to the next: what the last one saved has to show."""

CALM = 10.0
"""Seconds that the easier step would have done, before it is gone back to."""

LATE = 0.2
"""Seconds that what was said may wait to be heard: else the host has too much to do."""

MEMORY = 20.0
"""Seconds that finals are remembered for: sums fade by 1/e in so long."""

RECENT = 33
"""Partials whose middle one tells what one costs: a few that were held up are no crowd."""


@dataclass(frozen=True)
class Step:
    """Partials come `hop` times as seldom (inf: not at all); `admits` new sessions or refuses."""

    hop: float
    admits: bool
    said: str
    """What clients are told when it begins."""


STEPS = (
    Step(1.0, True, "There is room again: partials come as often as usual."),
    Step(2.0, True, "The server is busy: partials come half as often."),
    Step(4.0, True, "The server is busy: partials come a quarter as often."),
    Step(8.0, True, "The server is very busy: partials come an eighth as often."),
    Step(16.0, True, "The server is very busy: partials come a sixteenth as often."),
    Step(math.inf, True, "The server is too busy for partials; finals come as ever."),
    Step(math.inf, False, "The server is too busy for partials and for new sessions."),
)
"""A partial now and then costs finals next to nothing: few of their tokens are then not in the
draft. Two cores hold about as many streams as where none came after a quarter, and show what is
said twice as soon."""


class Fading:
    """A sum of what came of late, by seconds that ascend."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._at = -math.inf

    def add(self, at: float, value: float) -> None:
        """So much more."""
        self._sum = self.value(at) + value
        self._at = at

    def value(self, at: float) -> float:
        """The sum at that time."""
        return self._sum * math.exp(-max(at - self._at, 0.0) / MEMORY) if self._sum else 0.0


class Ladder:
    """Which step is in force, from what updates cost and how many people speak.

    Without I/O or a clock: `at` is in seconds, ascending. What a step asks of the device is
    arithmetic, so that a rise does not wait for the queue that it is to prevent: what finals took
    of late for a second of audio, at the speed of speech; and for each speaker a partial every
    `max(hop, factor · cost)` seconds. A client that sends a file at once is held back by its
    socket, and is no more of a crowd than one who speaks.
    """

    def __init__(self, hop: float, factor: float) -> None:
        """The usual hop in seconds, and the least number of a partial's cost between two."""
        self.level = 0
        self._hop = hop
        self._factor = factor
        self._partial = 0.0  # seconds of a lane that one costs
        self._partials: deque[float] = deque(maxlen=RECENT)
        self._finals = Fading()  # seconds of lanes
        self._audio = Fading()  # seconds that were heard
        self._spoken = Fading()  # seconds of these that could have been heard at speaking speed
        self._changed = -math.inf
        self._fits: float | None = None  # since when the easier step would do

    @property
    def step(self) -> Step:
        """What is in force."""
        return STEPS[self.level]

    def spent(self, at: float, seconds: float, *, partial: bool) -> None:
        """A lane has worked on an update of somebody who speaks."""
        if partial:
            self._partials.append(seconds)
            self._partial = statistics.median_low(self._partials)
        else:
            self._finals.add(at, seconds)

    def heard(self, at: float, seconds: float, spoken: float) -> None:
        """So much audio of all who speak; `spoken` of it without running ahead of the clock."""
        self._audio.add(at, seconds)
        self._spoken.add(at, spoken)

    def finals(self, at: float) -> float:
        """Lanes that finals keep busy, of late, with everybody at speaking speed."""
        taken, audio = self._finals.value(at) / MEMORY, self._audio.value(at)
        return taken * self._spoken.value(at) / audio if audio else taken

    def demand(self, at: float, level: int, speakers: int) -> float:
        """Lanes that would be busy at that level all the time."""
        if not self._partial:
            return self.finals(at)
        often = max(self._hop, self._factor * self._partial) * STEPS[level].hop
        return self.finals(at) + speakers * self._partial / often

    def look(self, at: float, speakers: int, lanes: int, late: float = 0.0) -> bool:
        """Whether another step is in force from now on, with so many lanes for the speakers.

        What they say was heard so `late` of late: the host may be busy where the lanes are not.
        """
        before = self.level
        if self.demand(at, self.level, speakers) > HIGH * lanes or late > LATE:
            self._fits = None
            if at - self._changed >= RISE and self.level + 1 < len(STEPS):
                self.level += 1
        elif self.level and self._easier(at, speakers, lanes, late):
            self._fits = at if self._fits is None else self._fits
            if at - self._fits >= CALM:
                self.level -= 1
                self._fits = None
        else:
            self._fits = None
        if self.level == before:
            return False
        self._changed = at
        return True

    def _easier(self, at: float, speakers: int, lanes: int, late: float) -> bool:
        return late <= LATE / 2 and self.demand(at, self.level - 1, speakers) <= LOW * lanes

"""How many streams a machine holds, foretold from what one of them costs."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from edge_runtime.bench.costs import Costs
from edge_runtime.bench.percentile import percentile
from edge_runtime.config import Updating
from edge_runtime.runtime.ladder import STEPS, Ladder

LOOK = 0.1
"""Seconds between two looks of the ladder."""

SLOWEST = 0.02
"""The least part of its speed that a lane is taken to have: below it nothing is held anyway."""


@dataclass(frozen=True)
class Foretold:
    """What so many streams are expected to meet; `p95` in seconds, from end of speech to final."""

    streams: int
    p95: float
    level: int
    speed: float
    """Part of its speed that each lane keeps beside all that shares the processor with it."""


class _Job(NamedTuple):
    """What waits for a lane: finals first, then the longest waiting."""

    rank: int
    since: float
    stream: int


def largest(
    holds: Callable[[int], bool], most: int, told: Callable[[int, int | None], None] | None = None
) -> int:
    """The largest number up to `most` that holds, by doubling and then halving what is left.

    0 where one alone does not. `told` hears after each try what held and what did not.
    """
    low, high, trying = 0, None, 1
    while high is None or high - low > 1:
        if holds(trying):
            low = trying
        else:
            high = trying
        if told is not None:
            told(low, high)
        if low == most:
            break
        trying = min(2 * low, most) if high is None else (low + high) // 2
    return low


def predict(costs: Costs, streams: int, seconds: float = 60.0, seed: int = 1) -> Foretold:
    """Play the turns of so many streams against lanes that cost what was measured.

    Lanes take finals first, then the partial that waits longest, and give way by the ladder that
    the server has. A final costs in proportion to the length of what was said. Its latency is one
    that was measured alone, and what it waits and works longer than it would there.
    """
    return _Play(costs, streams, seed).run(seconds)


class _Play:
    """An event queue of turns, partials and lanes."""

    def __init__(self, costs: Costs, streams: int, seed: int) -> None:
        self._costs = costs
        self._streams = streams
        self._chance = random.Random(seed)
        beside = streams * costs.beside
        free = (costs.cores - beside) / costs.lanes if costs.on_cpu else costs.cores - beside
        self._speed = max(SLOWEST, min(1.0, free))
        updating = Updating()
        self._hop, self._factor = updating.hop_ms / 1000, updating.hop_factor
        self._ladder = Ladder(self._hop, self._factor)
        self._mean = sum(costs.talks) / max(1, len(costs.talks))
        self._idle = costs.lanes
        self._jobs: list[_Job] = []
        self._events: list[tuple[float, int, str, int, float]] = []
        self._number = 0
        self._talk = [0.0] * streams  # length of what is being said, 0 in a pause
        self._said = [0.0] * streams  # length of what waits for its final
        self._pending = [False] * streams
        self._level = 0
        self.waits: list[float] = []

    def run(self, seconds: float) -> Foretold:
        for stream in range(self._streams):
            self._at(self._chance.uniform(0, self._mean), "talk", stream)
        self._at(LOOK, "look", 0)
        end = seconds
        while self._events and self._events[0][0] < end:
            now, _, what, stream, value = heapq.heappop(self._events)
            getattr(self, f"_{what}_now")(now, stream, value)
            self._give(now)
        # What still waits is late by at least so much.
        self.waits += [end - job.since for job in self._jobs if not job.rank]
        p95 = percentile(self.waits, 95)
        return Foretold(
            self._streams, math.inf if p95 is None else p95, self._level, round(self._speed, 3)
        )

    def _at(self, time: float, what: str, stream: int, value: float = 0.0) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, what, stream, value))

    def _talk_now(self, now: float, stream: int, _: float) -> None:
        self._talk[stream] = self._chance.choice(self._costs.talks)
        self._at(now + self._talk[stream], "fall", stream)
        self._at(now + self._hop, "partial", stream)

    def _fall_now(self, now: float, stream: int, _: float) -> None:
        self._said[stream], self._talk[stream] = self._talk[stream], 0.0
        self._jobs = [job for job in self._jobs if job.stream != stream or not job.rank]
        heapq.heapify(self._jobs)
        self._pending[stream] = False
        heapq.heappush(self._jobs, _Job(0, now, stream))
        self._at(now + self._chance.choice(self._costs.pauses), "talk", stream)

    def _partial_now(self, now: float, stream: int, _: float) -> None:
        often = max(self._hop, self._factor * self._costs.partial) * self._ladder.step.hop
        if not self._talk[stream] or self._pending[stream]:
            return
        if math.isinf(often):
            self._at(now + 1.0, "partial", stream)
            return
        self._pending[stream] = True
        heapq.heappush(self._jobs, _Job(1, now, stream))

    def _give(self, now: float) -> None:
        while self._idle and self._jobs:
            job = heapq.heappop(self._jobs)
            self._idle -= 1
            if job.rank:
                work = self._costs.partial
            else:
                work = self._costs.closing * self._said[job.stream] / self._mean
                late = now - job.since + work / self._speed - work
                self.waits.append(self._chance.choice(self._costs.waits) + late)
            took = work / self._speed
            self._ladder.spent(now, took, partial=bool(job.rank))
            self._at(now + took, "free", job.stream, job.rank)

    def _free_now(self, now: float, stream: int, rank: float) -> None:
        self._idle += 1
        if rank and self._talk[stream]:
            self._pending[stream] = False
            hop = self._ladder.step.hop
            often = max(self._hop, self._factor * self._costs.partial)
            self._at(now + often * (hop if math.isfinite(hop) else STEPS[2].hop), "partial", stream)

    def _look_now(self, now: float, _: int, __: float) -> None:
        speakers = sum(talk > 0 for talk in self._talk)
        self._ladder.heard(now, self._streams * LOOK, self._streams * LOOK)
        self._ladder.look(now, speakers, self._costs.lanes)
        self._level = max(self._level, self._ladder.level)
        self._at(now + LOOK, "look", 0)

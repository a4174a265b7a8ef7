"""How many streams a machine holds, foretold from what few of them cost."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from edge_runtime.bench.costs import Costs
from edge_runtime.bench.percentile import percentile
from edge_runtime.config import Updating
from edge_runtime.decode.update import Purpose
from edge_runtime.runtime.ladder import Ladder

LOOK = 0.1
"""Seconds between two looks of the ladder."""

HEARD = 0.2
"""Seconds after the end of speech that its end is guessed at, and the final begun."""

SETTLE = 5.0
"""Seconds that do not count."""

SLOWEST = 0.02
"""The least part of its speed that a lane is taken to have: below it nothing is held anyway."""


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


def predict(costs: Costs, streams: int, seconds: float = 120.0, seed: int = 1) -> Foretold:
    """Play the turns of so many streams against lanes that cost what was measured.

    As the server does: partials at each hop, a guess in each silence, finals first, the ladder. A
    final that was guessed before the endpoint takes as long as it does alone; else what it is later
    comes to that. Lanes that work at the same time share what processors the rest leaves them.
    """
    return _Play(costs, streams, seed).run(seconds)


@dataclass
class _Work:
    """An update that waits for a lane or is on one; `left` is its work in seconds.

    One that `closes` a turn is decoded of all that was said.
    """

    purpose: Purpose
    stream: int
    turn: int
    left: float
    closes: bool = False
    began: float = 0.0


@dataclass
class _Speaker:
    """One stream: what is being said since when, and what waits."""

    turn: int = 0
    began: float = 0.0
    length: float = 0.0
    talks: bool = False
    hop: float = 0.0
    alarm: float = 0.0
    """When it is looked whether a partial is due."""
    covered: float = 0.0
    served: float = -1.0
    due: dict[Purpose, _Work] = field(default_factory=dict)
    base: float = 0.0
    done: int = 0
    """The last turn whose end is decoded."""
    late: tuple[int, float] | None = None
    """The turn that should have ended, and when; its final is still to come."""


class _Play:
    """An event queue of turns, and lanes that share the processors."""

    def __init__(self, costs: Costs, streams: int, seed: int) -> None:
        self._costs = costs
        self._chance = random.Random(seed)
        if costs.on_cpu:
            rest = costs.idle + streams * (costs.served + costs.clients)
            self._free = max(SLOWEST * costs.lanes, costs.cores - rest)
        else:
            # The lanes' own part runs in the same interpreter as all that serves sockets.
            rest = costs.idle + streams * costs.served
            self._free = costs.lanes * max(SLOWEST, min(1.0, 1.0 - rest))
        self._updating = Updating()
        self._ladder = Ladder(self._updating.hop_ms / 1000, self._updating.hop_factor)
        self._speakers = [_Speaker() for _ in range(streams)]
        self._ready: set[int] = set()  # streams that have something due
        self._running: list[_Work] = []
        self._events: list[tuple[float, int, str, int]] = []
        self._number = 0
        self._level = 0
        self._worked = 0.0
        self.waits: list[float] = []

    def run(self, seconds: float) -> Foretold:
        mean = sum(self._costs.talks) / len(self._costs.talks)
        for number in range(len(self._speakers)):
            self._at(self._chance.uniform(0, mean), "talk", number)
        self._at(LOOK, "look", 0)
        now = 0.0
        while now < seconds:
            now = self._advance(now)
            self._give(now)
        late = [each.base + now - each.late[1] for each in self._speakers if each.late is not None]
        p95 = percentile(self.waits + late, 95)
        return Foretold(
            len(self._speakers),
            math.inf if p95 is None else p95,
            self._level,
            round(self._worked / seconds, 3),
        )

    def _at(self, time: float, what: str, stream: int) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, what, stream))

    def _alarm(self, time: float, stream: int) -> None:
        self._speakers[stream].alarm = time
        self._at(time, "hop", stream)

    def _advance(self, now: float) -> float:
        """To the next event, or to where the first lane is through."""
        speed = min(1.0, self._free / len(self._running)) if self._running else 1.0
        first = min(self._running, key=lambda work: work.left, default=None)
        until = self._events[0][0]
        if first is not None and now + first.left / speed < until:
            until = now + first.left / speed
        for work in self._running:
            work.left -= (until - now) * speed
        self._worked += (until - now) * len(self._running)
        if first is not None and first.left <= 1e-9:
            self._running.remove(first)
            self._through(until, first)
        else:
            _, _, what, stream = heapq.heappop(self._events)
            getattr(self, f"_{what}_now")(until, stream)
        return until

    # -- what is said

    def _talk_now(self, now: float, stream: int) -> None:
        each = self._speakers[stream]
        each.turn += 1
        each.began = each.covered = now
        each.length = self._chance.choice(self._costs.talks)
        each.talks = True
        each.hop = self._updating.first_ms / 1000
        guess = self._costs.guesses
        at = self._chance.expovariate(guess) if guess else math.inf
        while at < each.length:
            self._at(now + at, "guess", stream)
            at += self._chance.expovariate(guess)
        self._alarm(now + each.hop, stream)
        self._at(now + each.length, "fall", stream)

    def _guess_now(self, now: float, stream: int) -> None:
        each = self._speakers[stream]
        self._want(stream, Purpose.SPECULATIVE, now - each.began)

    def _hop_now(self, now: float, stream: int) -> None:
        each = self._speakers[stream]
        pace = self._ladder.step.hop
        if not each.talks or now != each.alarm:
            return
        if math.isinf(pace):
            self._alarm(now + 1.0, stream)
        elif now - each.covered < pace * each.hop - 1e-9:
            self._alarm(each.covered + pace * each.hop, stream)
        else:
            self._want(stream, Purpose.PARTIAL, now - each.began)

    def _fall_now(self, now: float, stream: int) -> None:
        each = self._speakers[stream]
        each.talks = False
        each.due = {want: work for want, work in each.due.items() if work.closes}
        if not each.due:
            self._ready.discard(stream)
        each.base = self._chance.choice(self._costs.waits)
        self._at(now + min(HEARD, each.base), "silence", stream)
        self._at(now + each.base, "end", stream)
        self._at(now + self._chance.choice(self._costs.pauses), "talk", stream)

    def _silence_now(self, now: float, stream: int) -> None:
        each = self._speakers[stream]
        if not each.talks:
            self._want(stream, Purpose.SPECULATIVE, each.length, closes=True)

    def _end_now(self, now: float, stream: int) -> None:
        each = self._speakers[stream]
        if each.talks:
            return  # the next clip came sooner than its endpoint: it is one turn
        if each.done == each.turn:
            self._count(now, each.base)
            return
        each.late = each.turn, now
        waiting = each.due.pop(Purpose.SPECULATIVE, None)
        if waiting is not None:
            each.due[Purpose.FINAL] = replace(waiting, purpose=Purpose.FINAL)

    def _look_now(self, now: float, _: int) -> None:
        speakers = sum(each.talks for each in self._speakers)
        heard = len(self._speakers) * LOOK
        self._ladder.heard(now, heard, heard)
        self._ladder.look(now, speakers, self._costs.lanes)
        self._level = max(self._level, self._ladder.level)
        self._at(now + LOOK, "look", 0)

    # -- lanes

    def _want(self, stream: int, purpose: Purpose, said: float, *, closes: bool = False) -> None:
        each = self._speakers[stream]
        left = self._costs.update(said)
        each.due[purpose] = _Work(purpose, stream, each.turn, left, closes)
        self._ready.add(stream)

    def _give(self, now: float) -> None:
        """Idle lanes take finals first, then who was served longest ago; one update a stream."""
        while len(self._running) < self._costs.lanes and self._ready:
            flying = {work.stream for work in self._running}
            waiting = [
                (min(self._speakers[number].due), self._speakers[number].served, number)
                for number in self._ready
                if number not in flying
            ]
            if not waiting:
                return
            purpose, _, number = min(waiting)
            each = self._speakers[number]
            work = each.due.pop(purpose)
            if not each.due:
                self._ready.discard(number)
            if purpose is Purpose.PARTIAL:  # all there is by now
                work.left = self._costs.update(now - each.began)
                each.covered = now
            work.began = each.served = now
            self._running.append(work)

    def _through(self, now: float, work: _Work) -> None:
        each = self._speakers[work.stream]
        took = now - work.began
        self._ladder.spent(now, took, partial=work.purpose is Purpose.PARTIAL)
        if work.purpose is Purpose.PARTIAL and work.turn == each.turn:
            hop = self._updating.hop_ms / 1000
            each.hop = max(hop, self._updating.hop_factor * took)
            self._alarm(now, work.stream)
        if work.closes:
            each.done = work.turn
            if each.late is not None and each.late[0] == work.turn:
                self._count(now, each.base + now - each.late[1])
                each.late = None

    def _count(self, now: float, wait: float) -> None:
        if now >= SETTLE:
            self.waits.append(wait)


def record(foretold: Foretold) -> dict[str, Any]:
    """For a file: latencies in ms."""
    return {
        "streams": foretold.streams,
        "final.p95": 1000 * foretold.p95 if math.isfinite(foretold.p95) else None,
        "level": foretold.level,
        "lanes": foretold.lanes,
    }

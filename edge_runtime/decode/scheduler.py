"""Decides which updates form the next batch, or until when to wait: no clock, no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from itertools import islice

from edge_runtime.decode.costs import Costs
from edge_runtime.decode.journal import (
    Asked,
    Batch,
    Decision,
    Delivered,
    Ending,
    Event,
    Freed,
    Lanes,
    Recall,
    Tick,
    Wait,
    Withdrawn,
)
from edge_runtime.decode.pages import PagePool
from edge_runtime.decode.queues import Flight, Stepping, Waiting, Wanted
from edge_runtime.decode.tenancy import Tenancy
from edge_runtime.decode.update import Purpose

WINDOW = 0.015
"""Seconds that a batch may wait for more updates, at most."""

RECENT = 64
"""Updates whose waiting the window follows."""

ALIKE = 0.5
"""The audio of the shortest row of a batch is at least this share of the longest."""

SHORT = 48_000
"""Samples below which rows are alike whatever their share: there is little to pad."""

AHEAD = 4
"""Times as many updates as a batch may have rows are looked at to form one."""

GAIN = 0.9
"""What a row may add to a batch, of what it would cost alone: else it runs by itself."""

MANY = 4
"""Rows of a batch whose last ones are worth to go on with others, though they are heard again."""

WORTH = 0.02
"""Seconds that a batch must be likely to take for its recall to gain a final anything."""


class Scheduler:
    """The same events give the same decisions.

    Finals before partials, then who is due earliest. The most urgent update decides what a batch
    is of; others join where their audio is about as long, where the table of costs says that this
    is cheaper than a turn of their own, and where memory is left. Prefill never waits for decode:
    a batch steps on in its lane, rows leave it as they are done, the lane is given the next one as
    it comes to its end, and only a final that finds all lanes at partials takes one away. Where a
    model keeps state, a session's next update waits for the one that is at it.
    """

    def __init__(
        self,
        costs: Costs,
        pool: PagePool,
        memory: Callable[[int], int],
        fits: Callable[[int, int], bool],
        *,
        keeps: bool = False,
    ) -> None:
        """`memory` is bytes of the state of a row of so many samples; `fits` says whether so many
        rows of so many samples are a batch for a lane. Where the model `keeps` the state of
        streams between updates, each takes one page."""
        self.waiting = Waiting()
        self.stepping = Stepping()
        self.tenancy = Tenancy(pool, keeps=keeps)
        self.recalls = 0
        self._costs = costs
        # Lengths are rounded up: the same few are asked about again and again.
        self._memory = lru_cache(1024)(memory)
        self._fits = lru_cache(1024)(fits)
        self._lanes = Lanes(0.0, 0, 1, 0)
        self._over: set[str] = set()
        self._waits: deque[float] = deque(maxlen=RECENT)
        self._number = 0
        self._free_since = 0.0
        self._took = 0.0
        self._spared: set[str] = set()

    @property
    def window(self) -> float:
        """Seconds that a batch would wait for more now, were others to wait and lanes at work.

        The p95 of how long updates waited of late for a lane.
        """
        waits = sorted(self._waits)
        return min(WINDOW, waits[int(0.95 * len(waits))]) if waits else 0.0

    def tell(self, event: Event) -> Decision:
        """Take in what happened. Ask with a `Tick`, again until there is nothing to do."""
        if isinstance(event, Asked):
            self.waiting.put(event.wanted)
        elif isinstance(event, Withdrawn):
            self.waiting.drop(event.session)
            self._spared.discard(event.session)
            if event.over:
                self._forget(event.session)
        elif isinstance(event, Delivered):
            self._delivered(event)
        elif isinstance(event, Tick):
            return self._decide(event.at)
        else:
            self._moved(event)
        return None

    # -- lanes

    @property
    def _room(self) -> int:
        return self._lanes.lanes - self.stepping.lanes

    def _moved(self, event: Lanes | Ending | Freed) -> None:
        full = self._room <= 0
        if isinstance(event, Lanes):
            self._lanes = event
        elif isinstance(event, Ending):
            if (flight := self.stepping.get(event.batch)) is not None:
                flight.ending = True
        else:
            self._freed(event)
        if full and self._room > 0:
            self._free_since = event.at

    def _delivered(self, event: Delivered) -> None:
        flight = self.stepping.get(event.batch)
        wanted = None if flight is None else flight.updates.pop(event.session, None)
        if flight is not None and wanted is not None:
            self._settle(event.batch, wanted)
            if not flight.recalled:
                self._spared.discard(event.session)

    def _freed(self, event: Freed) -> None:
        flight = self.stepping.end(event.batch)
        if flight is None:
            return
        for wanted in flight.updates.values():
            self._settle(event.batch, wanted)
        if not flight.recalled:
            took = event.at - flight.began
            self._took += (took - self._took) / (4 if self._took else 1)

    # -- memory

    @property
    def pool(self) -> PagePool:
        """The pages that all updates and states are in."""
        return self.tenancy.pool

    def _settle(self, number: int, wanted: Wanted) -> None:
        """A row is done: its session goes on with its state, unless its segment came to an end."""
        final = wanted.purpose is Purpose.FINAL
        self.tenancy.end(number, wanted.session, over=final or wanted.session in self._over)
        if not final:
            self._over.discard(wanted.session)

    def _forget(self, session: str) -> None:
        if self._at_work(session):
            self._over.add(session)
        else:
            self.tenancy.forget(session)

    def _at_work(self, session: str) -> bool:
        """Whether a lane is at the state that the session's next update goes on with.

        A final's is that of a segment that is over: what follows it has a state of its own.
        """
        if not self.tenancy.keeps:
            return False
        found = (flight.updates.get(session) for flight in self.stepping)
        return any(each is not None and each.purpose is not Purpose.FINAL for each in found)

    # -- decisions

    def _decide(self, at: float) -> Decision:
        if self._room <= 0:
            return None if self._took < WORTH else self._recall()
        eligible = self._eligible()
        if not eligible:
            return None
        rows, full = self._together_with(eligible)
        opens = min(each.since for each in rows) + self._window(rows, full)
        if at < opens:
            return Wait(opens)
        return self._begin(at, rows) or self._recall()

    def _eligible(self) -> list[Wanted]:
        """The most urgent, as many as may well fill a batch."""
        recordings = self._for_recordings
        found = (
            each
            for each in self.waiting
            if (each.live or recordings) and not self._at_work(each.session)
        )
        return list(islice(found, AHEAD * self._lanes.rows))

    @property
    def _for_recordings(self) -> bool:
        return sum(not flight.live for flight in self.stepping) < self._lanes.recordings

    def _together_with(self, eligible: list[Wanted]) -> tuple[list[Wanted], bool]:
        """The batch around the most urgent update, and whether no more would fit in it."""
        first, *others = eligible
        rows, longest, shortest = [first], first.samples, first.samples
        best = self._costs.best(longest, self._lanes.rows)
        for each in others:
            if len(rows) >= best:
                break
            most, least = max(longest, each.samples), min(shortest, each.samples)
            if each.live != first.live or (most > SHORT and least < ALIKE * most):
                continue
            if self._joins(len(rows), each, most):
                rows.append(each)
                if most > longest:
                    best = self._costs.best(most, self._lanes.rows)
                longest, shortest = most, least
        return rows[: self._costs.first(len(rows), longest)], len(rows) >= best

    def _joins(self, count: int, each: Wanted, most: int) -> bool:
        """Whether there is room for one more, and its share of such a batch, were that full, is
        less than it costs by itself."""
        costs = self._costs
        full = costs.rounded(count + 1)
        share = costs.update(full, most) / full
        if share > GAIN * costs.update(1, each.samples) or not self._fits(count + 1, most):
            return False
        return (count + 1) * self.pool.pages(self._memory(most)) <= self.tenancy.room

    def _window(self, rows: list[Wanted], full: bool) -> float:
        """Nothing where it would cost and not gain: see `window`."""
        alone = len(self.waiting) == 1 or not self.stepping.lanes
        if alone or full or rows[0].rank[0] is Purpose.FINAL:
            return 0.0
        return self.window

    def _begin(self, at: float, rows: list[Wanted]) -> Batch | None:
        longest = max(each.samples for each in rows)
        self._number += 1
        flight = Flight(self._number, at, rows[0].live)
        slots: list[int] = []
        self.tenancy.spare([each.session for each in rows])
        for each in rows:
            lease = self.tenancy.begin(flight.number, each.session, self._memory(longest))
            if lease is None:
                break
            slots += lease.pages[:1] if self.tenancy.keeps else ()
            flight.updates[each.session] = each
            self.waiting.drop(each.session)
            self._waits.append(max(0.0, self._free_since - each.since))
        if not flight.updates:
            return None
        flight.rows = len(flight.updates)
        cut = self._cut_for(flight)
        self.stepping.add(flight)
        return Batch(flight.number, tuple(flight.updates), tuple(slots), cut)

    def _cut_for(self, flight: Flight) -> int:
        """The batch that comes to its end and goes on elsewhere with what is left of it, if any.

        A token of few rows takes a lane nearly as long as one of many. Where a lane is idle, nobody
        waits for that one.
        """
        if len(self.stepping) < self._lanes.lanes:
            return 0
        for each in self.stepping:
            many = each.rows >= MANY and len(each.updates) <= flight.rows
            if each.ending and each.live and many and not (each.cut or each.recalled):
                each.cut = all(wanted.resumes for wanted in each.updates.values())
                if each.cut:
                    return each.number
        return 0

    def _recall(self) -> Recall | None:
        """A final finds all lanes or all pages taken: it gets those of the latest partials.

        Each session's partial once, until one came through.
        """
        first = self.waiting.first
        if first is None or first.rank[0] is not Purpose.FINAL:
            return None
        finals = sum(each.rank[0] is Purpose.FINAL for each in self.waiting)
        if finals <= sum(flight.recalled for flight in self.stepping):
            return None
        given = [
            flight
            for flight in self.stepping
            if flight.updates and flight.partial and not (flight.recalled or flight.ending)
            and self._spared.isdisjoint(flight.updates)
        ]  # fmt: skip
        if not given:
            return None
        flight = max(given, key=lambda each: each.began)
        flight.recalled = True
        self._spared.update(flight.updates)
        self.recalls += len(flight.updates)
        return Recall(flight.number)

    def check_integrity(self) -> None:
        """An `AssertionError` where pages and queues do not tell the same story."""
        held = {(each.number, name) for each in self.stepping for name in each.updates}
        self.tenancy.check_integrity(held)

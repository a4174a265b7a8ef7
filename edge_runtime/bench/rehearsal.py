"""What so many streams will meet, played in thought with the server's own scheduler and ladder."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from edge_runtime.audio import RATE
from edge_runtime.bench.client import PIECE
from edge_runtime.bench.costs import Costs
from edge_runtime.bench.course import Course, Moment, heard, piece
from edge_runtime.bench.met import Met
from edge_runtime.bench.speaker import Flight, Segment, Speaker
from edge_runtime.config import Config
from edge_runtime.decode import journal
from edge_runtime.decode.costs import Costs as NoBatches
from edge_runtime.decode.pages import PagePool
from edge_runtime.decode.queues import Wanted
from edge_runtime.decode.scheduler import Scheduler
from edge_runtime.decode.update import Purpose
from edge_runtime.runtime.crowd import EVERY
from edge_runtime.runtime.ladder import Ladder

Turns = tuple[float, Iterator[Course]]
"""When a stream begins, and what it plays one after the other."""

STEP = PIECE / RATE
"""Seconds between two pieces of audio."""


class Rehearsal:
    """An event queue of what is said, and lanes that share the processors, one update each."""

    def __init__(self, costs: Costs, turns: Sequence[Turns], config: Config) -> None:
        self.met = Met()
        self._costs = costs
        self._updating = config.updating
        self._padding = config.listening.padding_ms / 1000
        self._tail = config.listening.tail_ms / 1000
        self._cap = config.listening.cap_ms / 1000
        self._ladder = Ladder(self._updating.hop_ms / 1000, self._updating.hop_factor)
        self._scheduler = Scheduler(
            NoBatches(), PagePool(1 << 20, 1), lambda _: 1, lambda rows, _: rows == 1
        )
        self._scheduler.tell(journal.Lanes(0.0, costs.lanes, 1, costs.lanes))
        self._left = costs.left(len(turns))
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._ticket = itertools.count()
        self._running: dict[int, tuple[Speaker, Flight]] = {}
        self._speakers: dict[str, Speaker] = {}
        for number, (delay, clips) in enumerate(turns):
            each = Speaker(f"s{number}", clips, next(clips))
            self._speakers[each.name] = each
            self._begin(each, each.course, delay)
        self._at(EVERY, self._look)

    def run(self, first: float, last: float, until: float) -> Met:
        """Play until that second; what is said from the `first` to the `last` one counts."""
        self._window = first, last
        now = 0.0
        while now < until:
            now = self._advance(now)
            self._give(now)
        for each in self._speakers.values():
            if not each.through:
                self._count(each, now)
        return self.met

    def _at(self, time: float, then: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (time, next(self._ticket), then))

    def _advance(self, now: float) -> float:
        """To the next event, or to where the first lane is through."""
        working = len(self._running)
        speed = self._costs.speed(working, self._left)
        first = min((each for _, each in self._running.values()), key=_left, default=None)
        until, _, then = self._events[0]
        if first is not None and now + first.left / speed <= until:
            until = now + first.left / speed
            then = partial(self._through, flight=first)
        else:
            heapq.heappop(self._events)
        for _, each in self._running.values():
            each.left -= (until - now) * speed
        self.met.busy += (until - now) * working
        self.met.both += (until - now) * working * (working > 1)
        then(until)
        return until

    # -- what is said

    def _begin(self, each: Speaker, course: Course, at: float) -> None:
        each.play(course, at)
        for moment in course.moments:
            self._at(at + moment.at, partial(self._told, each=each, moment=moment, clip=at))
        self._at(at + piece(course.least), partial(self._stop, each=each))

    def _told(self, now: float, each: Speaker, moment: Moment, clip: float) -> None:
        segment = each.open
        if clip != each.began:
            return  # of the clip before
        if moment.what == "onset":
            self._open(now, each, max(0.0, moment.place - self._padding), moment.place)
        elif segment is None:
            return
        elif moment.what == "endpoint":
            self._close(now, each, segment, moment.place + self._tail)
        else:
            pauses = moment.what == "silence"
            segment.paused = moment.place + self._tail if pauses else None
        self._ask(now, each)

    def _open(self, now: float, each: Speaker, start: float, spoken: float) -> None:
        each.open = segment = Segment(start, spoken, self._updating.first_ms / 1000)
        self._alarm(now, each, segment)
        longest = max(STEP, start + self._cap - each.heard(now))
        self._at(now + longest, partial(self._cut, each=each, segment=segment))

    def _cut(self, now: float, each: Speaker, segment: Segment) -> None:
        """It is as long as one may be."""
        if each.open is segment:
            place = each.heard(now)
            self._close(now, each, segment, place)
            self._open(now, each, place, place)
            self._ask(now, each)

    def _close(self, now: float, each: Speaker, segment: Segment, end: float) -> None:
        if each.close(segment, end, now):
            self._concluded(now, each, segment)

    def _concluded(self, now: float, each: Speaker, segment: Segment) -> None:
        each.pending.remove(segment)
        self.met.waits.append(now - segment.closed)
        if not each.through and each.is_last(segment, self._tail):
            each.through = True
            self._count(each, now + self._costs.rest)

    def _count(self, each: Speaker, now: float) -> None:
        """A clip's final is there, or will not come any more, if its end lies in the time."""
        if each.course.close is not None:
            ended = each.began + each.course.close
            if self._window[0] <= ended <= self._window[1]:
                self.met.finals.append(now - ended)

    def _stop(self, now: float, each: Speaker) -> None:
        """Silence goes on until the last final is there; then the next clip begins."""
        if each.open is not None and now - each.began >= each.course.most:
            self._close(now, each, each.open, each.open.paused or each.heard(now))
            self._ask(now, each)
        if each.open is not None or each.pending:
            self._at(now + STEP, partial(self._stop, each=each))
            return
        begins = now + self._costs.between
        self.met.rests.append(begins - each.began - each.course.seconds)
        self._begin(each, next(each.clips), begins)

    # -- what is wanted

    def _alarm(self, now: float, each: Speaker, segment: Segment) -> None:
        """Ask again when as much is heard as a partial is for."""
        pace = self._ladder.step.hop
        if math.isinf(pace):
            return
        wanted = segment.since + pace * segment.hop
        at = piece(wanted)
        while heard(at) < wanted - 1e-6:  # whole frames are heard, of whole pieces
            at += STEP
        self._at(max(now, each.began + at), partial(self._due, each=each, segment=segment))

    def _due(self, now: float, each: Speaker, segment: Segment) -> None:
        if each.open is segment:
            self._ask(now, each)

    def _ask(self, now: float, each: Speaker) -> None:
        """As the server's `Turns` does."""
        wanted = each.wants(now, self._ladder.step.hop)
        if wanted is None:
            if each.asked is not None:
                self._scheduler.tell(journal.Withdrawn(now, each.name))
            each.asked = each.wanted_at = None
            return
        purpose, segment, end = wanted
        if each.asked == (purpose, end):
            return
        if each.asked is not None and each.asked[0] < purpose:
            self._scheduler.tell(journal.Withdrawn(now, each.name))
        each.asked = purpose, end
        each.wanted_at = now if each.wanted_at is None else each.wanted_at
        samples = max(1, int((end - segment.start) * RATE))
        asked = Wanted(each.name, purpose, samples, each.wanted_at, each.served_at)
        self._scheduler.tell(journal.Asked(now, asked))

    # -- lanes

    def _give(self, now: float) -> None:
        while True:
            decision = self._scheduler.tell(journal.Tick(now))
            if isinstance(decision, journal.Batch):
                self._run(now, decision)
            elif isinstance(decision, journal.Recall):
                self._running[decision.number][1].recall(self._costs.step)
            else:
                return

    def _run(self, now: float, batch: journal.Batch) -> None:
        each = self._speakers[batch.sessions[0]]
        wanted = each.wants(now, self._ladder.step.hop)
        each.wanted_at = each.asked = None
        if wanted is None:
            self._scheduler.tell(journal.Freed(now, batch.number))
            return
        each.served_at = now
        purpose, segment, end = wanted
        new = each.course.pace * segment.gap(end)
        work = self._costs.work(purpose, end - segment.start, new)
        flight = Flight(batch.number, purpose, segment, end, work, work.whole, now)
        self._running[batch.number] = each, flight
        if purpose is Purpose.FINAL:
            segment.in_flight = True
        else:
            each.flight = flight

    def _through(self, now: float, flight: Flight) -> None:
        each, _ = self._running.pop(flight.number)
        self._scheduler.tell(journal.Delivered(now, flight.number, each.name))
        self._scheduler.tell(journal.Freed(now, flight.number))
        if each.flight is flight:
            each.flight = None
        if not flight.recalled:
            self._delivered(now, each, flight)
        if each.open is flight.segment:
            self._alarm(now, each, flight.segment)
        self._ask(now, each)

    def _delivered(self, now: float, each: Speaker, flight: Flight) -> None:
        segment, purpose, took = flight.segment, flight.purpose, now - flight.began
        self.met.updates[purpose] += 1
        self.met.windows[purpose].append(flight.end - segment.start)
        self.met.gaps[purpose] += each.course.pace * segment.gap(flight.end)
        self._ladder.spent(now, took, partial=purpose is Purpose.PARTIAL)
        closes = purpose is not Purpose.PARTIAL and segment.end == flight.end
        if closes and segment in each.pending:
            self._concluded(now, each, segment)
            return
        segment.covered = flight.end
        if purpose is Purpose.SPECULATIVE:
            segment.guessed = flight.end
        segment.hop = max(self._updating.hop_ms / 1000, self._updating.hop_factor * took)

    def _look(self, now: float) -> None:
        talking = [each for each in self._speakers.values() if each.open is not None]
        some = len(self._speakers) * EVERY
        self._ladder.heard(now, some, some)
        if self._ladder.look(now, len(talking), self._costs.lanes):
            self.met.level = max(self.met.level, self._ladder.level)
            self.met.levels.append((now, self._ladder.level))
            for each in talking:
                assert each.open is not None
                self._alarm(now, each, each.open)
                self._ask(now, each)
        self._at(now + EVERY, self._look)


def _left(flight: Flight) -> float:
    return flight.left

"""Whose turn it is: what streams want goes to the scheduler, its batches to the lanes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import zip_longest

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
from edge_runtime.decode.pages import PagePool, State
from edge_runtime.decode.queues import Wanted
from edge_runtime.decode.scheduler import Scheduler
from edge_runtime.metrics import BatchMetrics
from edge_runtime.runtime.decoder import Decoder
from edge_runtime.runtime.engine import Batch as Rows
from edge_runtime.runtime.engine import Task
from edge_runtime.runtime.stream import Stream

TOLD = 0.1
"""Seconds between two times that queues and pages are told in the figures."""

Journal = Callable[[Event, Decision], None]


class Turns:
    """A `Scheduler` with a clock, for the streams of one runtime. From the event loop's thread."""

    def __init__(
        self, decoder: Decoder, streams: Mapping[str, Stream], metrics: BatchMetrics, page: int
    ) -> None:
        """Pages are of `page` bytes."""
        self.changed = False
        """Something is wanted, or not any more, since lanes were given work last."""
        self.journal: Journal | None = None
        """Told every event and what was decided: the same events give the same decisions."""
        self._decoder = decoder
        self._streams = streams
        self._metrics = metrics
        self._page = page
        self._asked: dict[str, tuple[int, int]] = {}
        self._batches: dict[int, Rows] = {}
        self._rows: dict[int, Rows] = {}
        self._lanes = Lanes(0.0, -1, 1, 0)
        self._looked = 0.0
        self.open()

    def open(self) -> None:
        """Begin anew with the lanes that the decoder has now: nothing flies, all must ask again."""
        chain, size, lanes = self._decoder.loaded.chain, self._decoder.size, self._decoder.lanes
        buckets = chain.buckets(size)
        self._round = buckets.samples

        def fits(rows: int, samples: int) -> bool:
            return size.fits(buckets.rows(rows), buckets.samples(samples))

        def memory(samples: int) -> int:
            return chain.state(1, size.samples if chain.keeps else buckets.samples(samples))

        if chain.keeps:
            each = memory(size.samples)
            pool = PagePool(max(1, self._decoder.slots) * each, each)
        else:
            sizes = (1, *buckets.row_sizes, size.rows)
            most = max(chain.state(rows, min(size.samples, size.whole // rows)) for rows in sizes)
            # Rows begin at whole pages.
            pages = -(-most // self._page) + size.rows
            pool = PagePool(max(1, lanes) * pages * self._page, self._page)
        self.scheduler = Scheduler(self._decoder.costs, pool, memory, fits, keeps=chain.keeps)
        self._dropped = 0
        self._asked.clear()
        self._batches.clear()
        self._rows.clear()
        self._lanes = Lanes(0.0, -1, 1, 0)
        for stream in self._streams.values():
            self.ask(stream)

    # -- what streams want

    def ask(self, stream: Stream) -> None:
        """Look what it wants by now; what it wanted before gives way to that."""
        now = time.perf_counter()
        name, wanted = stream.session.name, stream.wants(now)
        if wanted is None:
            if self._asked.pop(name, None) is not None:
                self._tell(Withdrawn(now, name))
                self.changed = True
            return
        samples = self._round(max(1, stream.session.samples(wanted)))
        asked = (wanted, samples)
        if self._asked.get(name) == asked:
            return
        if self._asked.get(name, asked)[0] < wanted:
            # What was more urgent came to an end otherwise: it must not hold up what is left.
            self._tell(Withdrawn(now, name))
        self._asked[name] = asked
        self.changed = True
        since = stream.wanted_at
        assert since is not None
        resumes = stream.session.resumes
        ask = Wanted(name, wanted, samples, since, stream.served_at, stream.live, resumes)
        self._tell(Asked(now, ask))

    def forget(self, stream: Stream) -> None:
        """It is over."""
        name = stream.session.name
        self._asked.pop(name, None)
        self._tell(Withdrawn(time.perf_counter(), name, over=True))

    def delivered(self, task: Task, *, back: bool = False) -> None:
        """A row is done, or given `back`."""
        rows = self._batches.pop(id(task), None)
        if rows is None:
            return
        if back and rows.cut:
            self._metrics.deferred()
        self._tell(Delivered(time.perf_counter(), rows.number, task.update.session))

    def ending(self, rows: Rows) -> None:
        """The lane of a batch may be given another one."""
        if rows.number in self._rows:
            self._tell(Ending(time.perf_counter(), rows.number))

    def freed(self, rows: Rows) -> None:
        """The lane of a batch is idle."""
        if self._rows.pop(rows.number, None) is not None:
            self._tell(Freed(time.perf_counter(), rows.number))

    # -- what lanes get

    @property
    def urgency(self) -> tuple[int, float] | None:
        """Of what waits most urgently, the least first; None where nothing waits."""
        first = self.scheduler.waiting.first
        return None if first is None else first.rank[:2]

    def give(self, lanes: int, rows: int, recordings: int) -> float | None:
        """Give work to idle lanes, of which so many may work in all, on so many rows.

        Of these lanes so many may be at recordings. Gives until when a batch waits for more, if
        one does.
        """
        self.changed = False
        while True:
            now = time.perf_counter()
            told = Lanes(self._lanes.at, lanes, rows, recordings)
            if told != self._lanes:
                self._lanes = Lanes(now, lanes, rows, recordings)
                self._tell(self._lanes)
            decision = self._tell(Tick(now))
            if isinstance(decision, Batch):
                self._run(decision, now)
            elif isinstance(decision, Recall):
                self._rows[decision.number].recalled = True
                self._metrics.recalled(len(self._rows[decision.number].tasks))
            else:
                self._count(now)
                return decision.until if isinstance(decision, Wait) else None

    def _run(self, batch: Batch, now: float) -> None:
        if (rows := self._rows.get(batch.cut)) is not None:
            rows.recalled = rows.cut = True
        tasks: list[Task] = []
        for name, slot in zip_longest(batch.sessions, batch.slots):
            self._asked.pop(name, None)
            stream = self._streams[name]
            update = stream.session.take()
            if update is None:
                self._tell(Delivered(now, batch.number, name))
                continue
            audio = stream.session.ring.pieces(update.start, update.end)
            if slot is not None:
                update = replace(update, slot=slot)
            tasks.append(Task(stream, update, audio, stream.served(now)))
        if not tasks:
            self._tell(Freed(now, batch.number))
            return
        rows = Rows(*tasks, number=batch.number)
        self._batches.update((id(task), rows) for task in tasks)
        self._rows[batch.number] = rows
        self._metrics.batch(len(tasks))
        self._decoder.submit(rows)

    def _tell(self, event: Event) -> Decision:
        decision = self.scheduler.tell(event)
        if self.journal is not None:
            self.journal(event, decision)
        return decision

    def _count(self, now: float) -> None:
        if now - self._looked < TOLD:
            return
        self._looked = now
        scheduler = self.scheduler
        stepping = sum(len(flight.updates) for flight in scheduler.stepping)
        self._metrics.queues(len(scheduler.waiting), stepping, scheduler.window)
        pool = scheduler.pool
        held = {state.value: pool.held(state) for state in State}
        self._metrics.pages({**held, "free": pool.free})
        dropped = scheduler.tenancy.dropped
        self._metrics.dropped(dropped - self._dropped)
        self._dropped = dropped

"""Sessions that want updates of real speech from one scheduler and the engine that serves."""

from __future__ import annotations

import heapq
import itertools
import queue
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from edge_runtime.audio.ring import Samples
from edge_runtime.decode import scheduler as room
from edge_runtime.decode.costs import Costs
from edge_runtime.decode.journal import Asked, Batch, Delivered, Ending, Freed, Lanes, Tick, Wait
from edge_runtime.decode.pages import PagePool
from edge_runtime.decode.queues import Wanted
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.scheduler import Scheduler
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.errors import DeviceError
from edge_runtime.runtime.engine import Batch as Rows
from edge_runtime.runtime.engine import Delivery, Engine, Recalled, Task
from gpu_bench.timing import Times

PATIENCE = 30.0


@dataclass(frozen=True)
class Work:
    """An update and its audio."""

    update: Update
    audio: tuple[Samples, ...]


class Static(Scheduler):
    """Batches of a fixed number of rows; who is short of that waits as long as may be."""

    def _window(self, rows: list[Wanted], full: bool) -> float:
        return 0.0 if full else room.WINDOW


@dataclass
class Met:
    """What sessions met: seconds from wanted to delivered, and of batches their rows."""

    latency: list[float] = field(default_factory=list)
    finals: list[float] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    took: float = 0.0
    deferred: int = 0
    """Times that one went on in another batch."""
    device: float = 0.0
    """Seconds that lanes worked, all together."""
    host: float = 0.0
    """Processor seconds of this process, a second."""

    @classmethod
    def of(cls, some: Sequence[Met]) -> Met:
        """All of these as one."""
        took = sum(each.took for each in some)
        return cls(
            [each for met in some for each in met.latency],
            [each for met in some for each in met.finals],
            [each for met in some for each in met.rows],
            took,
            sum(each.deferred for each in some),
            sum(each.device for each in some),
            sum(each.host * each.took for each in some) / took,
        )

    @property
    def times(self) -> Times:
        return Times(tuple(self.latency))

    @property
    def rate(self) -> float:
        """Updates a second."""
        return len(self.latency) / self.took

    @property
    def mean(self) -> float:
        """Rows of a batch."""
        return sum(self.rows) / max(1, len(self.rows))


class Crowd:
    """So many sessions on these lanes, each with work of its own, over and over."""

    def __init__(
        self, runners: Sequence[Runner], work: Sequence[Work], sessions: int, *,
        costs: Costs, rows: int, static: bool = False, seed: int = 1,
    ) -> None:  # fmt: skip
        """`costs` weigh batches of up to `rows` rows."""
        size, chain = runners[0].size, runners[0].chain
        buckets = chain.buckets(size)
        page = 1 << 18
        pages = len(runners) * (chain.state(1, size.whole) // page + 65)
        kind = Static if static else Scheduler
        self._scheduler = kind(
            costs,
            PagePool(pages * page, page),
            lambda samples: chain.state(1, buckets.samples(samples)),
            lambda count, samples: size.fits(buckets.rows(count), buckets.samples(samples)),
        )
        self._round = buckets.samples
        self._came: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
        self._engine = Engine(runners, self._came.put)
        self._chance = random.Random(seed)
        begins = (self._chance.randrange(len(work)) for _ in itertools.count())
        self._work = {
            f"s{n}": itertools.islice(itertools.cycle(work), next(begins), None)
            for n in range(sessions)
        }
        self._wants: dict[str, tuple[Work, float]] = {}
        self._numbers: dict[int, int] = {}
        self._flying: dict[int, Rows] = {}
        self._due: list[tuple[float, str]] = []
        self._rows = rows
        self._lanes = len(runners)
        self.met = Met()

    def run(self, seconds: float, every: float = 0.0) -> Met:
        """What they meet in so long; each wants its next update at once, or so long after the last
        that it wanted (on average, at random).

        Raises `DeviceError` where an update fails or does not come.
        """
        engine, now = self._engine, time.perf_counter()
        engine.start()
        try:
            self._scheduler.tell(Lanes(now, self._lanes, self._rows, self._lanes))
            for name in self._work:
                heapq.heappush(self._due, (now + self._chance.uniform(0, every), name))
            began, used = time.perf_counter(), time.process_time()
            while (now := time.perf_counter()) < began + seconds or not self.met.latency:
                self._look(now, max(now, began + seconds), every)
            self.met.took = now - began
            self.met.host = (time.process_time() - used) / self.met.took
        finally:
            engine.stop()
        return self.met

    def _look(self, now: float, end: float, every: float) -> None:
        while self._due and self._due[0][0] <= now:
            at, name = heapq.heappop(self._due)
            if name in self._wants:  # behind: it goes on with newer audio
                self.met.latency.append(now - self._wants[name][1])
            self._ask(name, at, now)
            if every:
                heapq.heappush(self._due, (at + self._chance.expovariate(1 / every), name))
        until = self._give(now)
        until = min([end, until, *(at for at, _ in self._due[:1])])
        try:
            delivery = self._came.get(timeout=max(1e-3, until - time.perf_counter()))
        except queue.Empty:
            return
        self._take(delivery, every)
        while not self._came.empty():
            self._take(self._came.get(), every)

    def _ask(self, name: str, since: float, now: float) -> None:
        self._want(name, next(self._work[name]), since, now)

    def _want(self, name: str, work: Work, since: float, now: float) -> None:
        self._wants[name] = (work, since)
        samples = self._round(work.update.end - work.update.start)
        wanted = Wanted(name, work.update.purpose, samples, since, since, resumes=True)
        self._scheduler.tell(Asked(now, wanted))

    def _give(self, now: float) -> float:
        while True:
            decision = self._scheduler.tell(Tick(now))
            if not isinstance(decision, Batch):
                return decision.until if isinstance(decision, Wait) else now + PATIENCE
            tasks = []
            for name in decision.sessions:
                work, since = self._wants.pop(name)
                tasks.append(Task(name, work.update, work.audio, since))
            self._numbers.update((id(task), decision.number) for task in tasks)
            self.met.rows.append(len(tasks))
            if decision.cut:
                self._flying[decision.cut].recalled = True
            rows = self._flying[decision.number] = Rows(*tasks, number=decision.number)
            self._engine.submit(rows)

    def _take(self, delivery: Delivery, every: float) -> None:
        assert delivery.batch is not None
        now = time.perf_counter()
        if delivery.free or delivery.ending:
            happened = Freed if delivery.free else Ending
            self._scheduler.tell(happened(now, delivery.batch.number))
            self._give(now)
            if delivery.free:
                del self._flying[delivery.batch.number]
        for task, result in delivery.results:
            self._scheduler.tell(Delivered(now, self._numbers.pop(id(task)), task.owner))
            if isinstance(result, Recalled):
                self.met.deferred += 1
                update = replace(task.update, draft=result.draft)
                self._want(task.owner, Work(update, task.audio), task.wanted, now)
                continue
            if not isinstance(result, Hypothesis):
                raise result if isinstance(result, DeviceError) else DeviceError(f"{result}")
            self.met.latency.append(now - task.wanted)
            self.met.device += result.cost.share
            if task.update.purpose is Purpose.FINAL:
                self.met.finals.append(now - task.wanted)
            if not every:
                self._ask(task.owner, now, now)

"""The threads that own the device: each takes a batch, runs it, delivers what came out."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edge_runtime.decode.family import AnyRunner
from edge_runtime.decode.runner import Audio
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.errors import DeviceError, DeviceLost, EdgeRuntimeError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """An update and where its audio lies; `owner` comes back with the result.

    `wanted` is since when the owner wanted one (`time.perf_counter`).
    """

    owner: Any
    update: Update
    audio: Audio
    wanted: float


class Batch:
    """Tasks that a lane runs together, the rows of one batch.

    Once it is `recalled`, the lane gives back at its next look what is not done by then; where it
    is `cut`, that is so because few are left, which go on with others.
    """

    def __init__(self, *tasks: Task, number: int = 0) -> None:
        self.tasks = tasks
        self.number = number
        self.recalled = False
        self.cut = False

    @property
    def live(self) -> bool:
        """Somebody speaks into one of their sessions."""
        return any(task.owner.live for task in self.tasks)


@dataclass(frozen=True)
class Recalled:
    """The task was not finished: its lane was needed for something else.

    With the `draft` it goes on where it was.
    """

    draft: tuple[int, ...] = ()


Result = Hypothesis | EdgeRuntimeError | Recalled


@dataclass(frozen=True)
class Delivery:
    """What came of some tasks of a batch; with `free`, of the last, and the lane waits for more.

    An `ending` one says before that the lane soon will: what is submitted then begins at once. A
    device that was found lost without a task comes with none, and an `error`.
    """

    batch: Batch | None
    results: Sequence[tuple[Task, Result]] = ()
    free: bool = False
    ending: bool = False
    error: DeviceLost | None = None


Deliver = Callable[[Delivery], None]


@dataclass(frozen=True)
class Rest:
    """How a lane keeps a device awake: a little work after so many idle `seconds`.

    `wanted` is asked each time, on the lane's thread.
    """

    seconds: float
    wanted: Callable[[], bool]


@dataclass(frozen=True)
class Proof:
    """To be given by every lane that has come through with nothing `since`."""

    since: Sequence[int]


class _Last:
    """What a lane's last batch came to, kept until the device is at the next one.

    The interpreter's lock goes to whoever takes the results in, and the device would wait.
    """

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._kept: Delivery | None = None

    def __bool__(self) -> bool:
        return self._kept is not None

    def keep(self, delivery: Delivery) -> None:
        self._kept = delivery

    def tell(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            self._deliver(kept)


class Engine:
    """One thread for each lane. `deliver` is called on that thread."""

    def __init__(
        self, runners: Sequence[AnyRunner], deliver: Deliver, rest: Rest | None = None
    ) -> None:
        self._tasks: queue.SimpleQueue[Batch | Proof | None] = queue.SimpleQueue()
        self._deliver = deliver
        self._rest = rest
        self._threads = [
            threading.Thread(target=self._loop, args=(n, runner), name=f"lane-{n}", daemon=True)
            for n, runner in enumerate(runners)
        ]
        self.lanes = len(self._threads)
        self._through = [0] * self.lanes  # each counted by its own thread

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def submit(self, batch: Batch) -> None:
        self._tasks.put(batch)

    @property
    def through(self) -> tuple[int, ...]:
        """How often each lane came through with something it was given."""
        return tuple(self._through)

    def proven(self, since: Sequence[int]) -> bool:
        """Whether every lane came through with something since `through` was that.

        Those that have nothing to do are asked for a proof; ask again until it is given.
        """
        waiting = sum(now == then for now, then in zip(self._through, since, strict=True))
        if waiting and self._tasks.empty():  # else there is work for them, and it must go on
            for _ in range(waiting):
                self._tasks.put(Proof(since))
        return not waiting

    def stop(self) -> None:
        """Finish what is running and end the threads."""
        self.dismiss()
        for thread in self._threads:
            thread.join()

    def dismiss(self) -> None:
        """Let the threads end once they are through, however long a device keeps them."""
        for _ in self._threads:
            self._tasks.put(None)

    def _loop(self, lane: int, runner: AnyRunner) -> None:
        last = _Last(self._deliver)
        while (batch := self._next(runner, last)) is not None:
            if isinstance(batch, Proof):
                self._prove(lane, runner, batch.since)
            else:
                self._run(lane, runner, batch, last)

    def _run(self, lane: int, runner: AnyRunner, batch: Batch, last: _Last) -> None:
        """Deliver each look's rows at once, those that are left when something fails with it."""
        began = time.perf_counter()
        left = dict(enumerate(batch.tasks))
        failed: EdgeRuntimeError | None = None
        ending, drafts = False, dict[int, tuple[int, ...]]()
        try:
            updates = [task.update for task in batch.tasks]
            audio = [task.audio for task in batch.tasks]
            for each in runner.rounds(updates, audio, lambda: batch.recalled):
                last.tell()
                drafts.update(each.left)
                results = [
                    (task := left.pop(row), _after(result, began - task.wanted))
                    for row, result in each.done.items()
                ]
                self._through[lane] += not left
                told = Delivery(batch, results, free=not left, ending=each.ending and not ending)
                if ending and not left:
                    last.keep(told)
                elif results or told.ending:
                    self._deliver(told)
                ending |= each.ending
        except EdgeRuntimeError as error:
            _log.error("%s failed: %s", _named(left), error)
            failed = error
        except Exception as error:  # noqa: BLE001 – a lane must outlive whatever one update does
            _log.exception("%s failed", _named(left))
            failed = DeviceError(f"an update failed: {error!r}", "Please report this.")
        if left:
            last.tell()
            rest: list[tuple[Task, Result]] = [
                (task, failed or Recalled(drafts.get(row, ()))) for row, task in left.items()
            ]
            self._deliver(Delivery(batch, rest, free=True))
            self._through[lane] += 1

    def _prove(self, lane: int, runner: AnyRunner, since: Sequence[int]) -> None:
        """Come through with a little silence, unless there was work meanwhile."""
        if self._through[lane] != since[lane]:
            return
        try:
            _stir(runner)
        except DeviceLost as error:
            self._deliver(Delivery(None, error=error))
        except Exception:  # noqa: BLE001 – the next update says it to its session
            _log.exception("a lane that should prove that it works failed")
        self._through[lane] += 1

    def _next(self, runner: AnyRunner, last: _Last) -> Batch | Proof | None:
        """The next batch; silence is decoded while there is none, where that is asked for.

        Where there is one, the `last` is told of once the device is at it.
        """
        if last:
            with contextlib.suppress(queue.Empty):
                if isinstance(batch := self._tasks.get_nowait(), Batch):
                    return batch
                last.tell()
                return batch
            last.tell()
        rest = self._rest
        while rest is not None:
            try:
                return self._tasks.get(timeout=rest.seconds)
            except queue.Empty:
                if rest.wanted() and not _stirred(runner):
                    rest = None
        return self._tasks.get()


def _after(result: Hypothesis | DeviceError, queue: float) -> Result:
    """With the time that it waited for its lane."""
    if isinstance(result, DeviceError):
        _log.error("an update failed: %s", result)
        return result
    return replace(result, cost=replace(result.cost, queue=queue))


def _named(tasks: Mapping[int, Task]) -> str:
    names = [task.update.session for task in tasks.values()]
    return f"update of session{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _stir(runner: AnyRunner) -> None:
    """Decode the least silence there is; raises what decoding raises."""
    silence = np.zeros(runner.chain.shape.shortest, np.float32)
    update = Update("keep-warm", 0, Purpose.PARTIAL, 0, len(silence), limit=1)
    runner.run([update], [[silence]])


def _stirred(runner: AnyRunner) -> bool:
    """Stir: clocks and caches stay as they are for speech."""
    try:
        _stir(runner)
    except Exception:  # noqa: BLE001 – the next update says it to its session
        _log.exception("the device is kept warm no more")
        return False
    return True

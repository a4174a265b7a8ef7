"""The threads that own the device: each takes an update, runs it, delivers what came out."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
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


Result = Hypothesis | EdgeRuntimeError
Deliver = Callable[[Task | None, Result], None]
"""Told what came of a task; a device that was found lost without one comes with None."""


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


class Engine:
    """One thread for each lane. `deliver` is called on that thread."""

    def __init__(
        self, runners: Sequence[AnyRunner], deliver: Deliver, rest: Rest | None = None
    ) -> None:
        self._tasks: queue.SimpleQueue[Task | Proof | None] = queue.SimpleQueue()
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

    def submit(self, task: Task) -> None:
        self._tasks.put(task)

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
        while (task := self._next(runner)) is not None:
            if isinstance(task, Proof):
                self._prove(lane, runner, task.since)
                continue
            began = time.perf_counter()
            result: Result
            try:
                (hypothesis,) = runner.run([task.update], [task.audio])
                cost = replace(hypothesis.cost, queue=began - task.wanted)
                result = replace(hypothesis, cost=cost)
            except EdgeRuntimeError as error:
                _log.error("update of session %s failed: %s", task.update.session, error)
                result = error
            except Exception as error:  # noqa: BLE001 – a lane must outlive whatever one update does
                _log.exception("update of session %s failed", task.update.session)
                result = DeviceError(f"an update failed: {error!r}", "Please report this.")
            self._through[lane] += 1
            self._deliver(task, result)

    def _prove(self, lane: int, runner: AnyRunner, since: Sequence[int]) -> None:
        """Come through with a little silence, unless there was work meanwhile."""
        if self._through[lane] != since[lane]:
            return
        try:
            _stir(runner)
        except DeviceLost as error:
            self._deliver(None, error)
        except Exception:  # noqa: BLE001 – the next update says it to its session
            _log.exception("a lane that should prove that it works failed")
        self._through[lane] += 1

    def _next(self, runner: AnyRunner) -> Task | Proof | None:
        """The next task; silence is decoded while there is none, where that is asked for."""
        rest = self._rest
        while rest is not None:
            try:
                return self._tasks.get(timeout=rest.seconds)
            except queue.Empty:
                if rest.wanted() and not _stirred(runner):
                    rest = None
        return self._tasks.get()


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

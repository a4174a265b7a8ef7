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

from edge_runtime.decode.runner import Audio, Runner
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.errors import DeviceError, EdgeRuntimeError

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
Deliver = Callable[[Task, Result], None]


@dataclass(frozen=True)
class Rest:
    """How a lane keeps a device awake: a little work after so many idle `seconds`.

    `wanted` is asked each time, on the lane's thread.
    """

    seconds: float
    wanted: Callable[[], bool]


class Engine:
    """One thread for each lane. `deliver` is called on that thread."""

    def __init__(
        self, runners: Sequence[Runner], deliver: Deliver, rest: Rest | None = None
    ) -> None:
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._deliver = deliver
        self._rest = rest
        self._threads = [
            threading.Thread(target=self._loop, args=(runner,), name=f"lane-{n}", daemon=True)
            for n, runner in enumerate(runners)
        ]
        self.lanes = len(self._threads)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def submit(self, task: Task) -> None:
        self._tasks.put(task)

    def stop(self) -> None:
        """Finish what is running and end the threads."""
        self.dismiss()
        for thread in self._threads:
            thread.join()

    def dismiss(self) -> None:
        """Let the threads end once they are through, however long a device keeps them."""
        for _ in self._threads:
            self._tasks.put(None)

    def _loop(self, runner: Runner) -> None:
        while (task := self._next(runner)) is not None:
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
            self._deliver(task, result)

    def _next(self, runner: Runner) -> Task | None:
        """The next task; silence is decoded while there is none, where that is asked for."""
        rest = self._rest
        while rest is not None:
            try:
                return self._tasks.get(timeout=rest.seconds)
            except queue.Empty:
                if rest.wanted() and not _stirred(runner):
                    rest = None
        return self._tasks.get()


def _stirred(runner: Runner) -> bool:
    """Decode the least silence there is: clocks and caches stay as they are for speech."""
    silence = np.zeros(runner.chain.shape.shortest, np.float32)
    update = Update("keep-warm", 0, Purpose.PARTIAL, 0, len(silence), limit=1)
    try:
        runner.run([update], [[silence]])
    except Exception:  # noqa: BLE001 – the next update says it to its session
        _log.exception("the device is kept warm no more")
        return False
    return True

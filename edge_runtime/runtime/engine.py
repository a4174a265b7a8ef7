"""The threads that own the device: each takes an update, runs it, delivers what came out."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edge_runtime.decode.runner import Audio, Runner
from edge_runtime.decode.update import Hypothesis, Update
from edge_runtime.errors import DeviceError, EdgeRuntimeError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """An update and where its audio lies; `owner` comes back with the result."""

    owner: Any
    update: Update
    audio: Audio
    wanted: float


Deliver = Callable[[Task, Hypothesis | EdgeRuntimeError], None]


class Engine:
    """One thread for each lane. `deliver` is called on that thread."""

    def __init__(self, runners: Sequence[Runner], deliver: Deliver) -> None:
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._deliver = deliver
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
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()

    def _loop(self, runner: Runner) -> None:
        while (task := self._tasks.get()) is not None:
            began = time.perf_counter()
            result: Hypothesis | EdgeRuntimeError
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

"""Judges the device that is used; one that fails too often is kept, and tried by and by."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from edge_runtime.config import Recovering
from edge_runtime.errors import DeviceError, DeviceLost
from edge_runtime.metrics import DeviceMetrics
from edge_runtime.runtime.breaker import Breaker
from edge_runtime.runtime.load import Loaded

_log = logging.getLogger(__name__)
Lanes = TypeVar("Lanes")


class Standby(Generic[Lanes]):
    """At most one device waits: the one that was used first. All belongs to the event loop."""

    def __init__(
        self,
        recovering: Recovering,
        metrics: DeviceMetrics,
        probe: Callable[[Loaded], Lanes],
        back: Callable[[Loaded, Lanes], Awaitable[None]],
    ) -> None:
        """`probe` makes lanes of the device that waits and tries them, in a thread of its own.

        What it raises is another failure; after `DeviceLost` it is not tried again. `back` has
        them used, on the event loop.
        """
        self._recovering = recovering
        self._metrics = metrics
        self._probe = probe
        self._back = back
        self._judge = Breaker(recovering)
        self._error: Exception | None = None
        self._waiting: Loaded | None = None
        self._lost: list[Loaded] = []
        self._due = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def about(self) -> dict[str, Any] | None:
        """For people: which device waits, and for how many seconds."""
        if self._waiting is None:
            return None
        seconds = max(0.0, self._due - time.monotonic())
        return {"device": self._waiting.device.name, "seconds": round(seconds, 1)}

    def worked(self) -> None:
        """An update went well."""
        self._judge.worked(time.monotonic())

    def failed(self, session: str, error: Exception) -> bool:
        """An update of a session failed; whether the device is to be left for that.

        Updates that ran together fail by one error, which counts once.
        """
        if not isinstance(error, DeviceError):
            return False
        self._metrics.failed()
        if error is self._error:
            return False
        self._error = error
        return self._judge.failed(time.monotonic(), session)

    def keep(self, loaded: Loaded) -> None:
        """Try it by and by, where no other one waits; the next device is judged from now on."""
        judge, self._judge = self._judge, Breaker(self._recovering)
        if self._waiting is None:
            judge.left(time.monotonic())
            self._waiting = loaded
            self._task = asyncio.create_task(self._wait(loaded, judge))

    def take(self, loaded: Loaded) -> None:
        """It is used again, untried: what waits is another one, if any."""
        if self._waiting is loaded:
            self.drop()

    def drop(self) -> Loaded | None:
        """Do not try again; gives the device that waited."""
        if self._task is not None:
            self._task.cancel()
        waited, self._waiting = self._waiting, None
        return waited

    async def _wait(self, loaded: Loaded, judge: Breaker) -> None:
        name = loaded.device.name
        while True:
            pause = judge.pause()
            self._due = time.monotonic() + pause
            _log.warning("%s is tried again in %g s", name, pause)
            await asyncio.sleep(pause)
            try:
                lanes = await asyncio.to_thread(self._probe, loaded)
            except DeviceLost as error:
                _log.critical("%s is lost, and not tried again: %s", name, error)
                # Kept for good, as every lost one; another device may wait from now on.
                self._lost.append(loaded)
                self._waiting = None
                return
            except Exception as error:  # noqa: BLE001 – whatever it is, it is not used
                _log.warning("%s fails still: %s", name, error)
            else:
                break
        judge.returned(time.monotonic())
        self._judge, self._waiting = judge, None
        await self._back(loaded, lanes)

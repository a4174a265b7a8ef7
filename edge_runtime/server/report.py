"""What systemd is told of a server: that it loads, serves, works, and ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator

from edge_runtime.server.base import Runtime
from edge_runtime.server.state import State
from edge_runtime.systemd.manager import Manager

_log = logging.getLogger(__name__)
_LOADING = 900.0
"""Seconds for which a load that goes on is taken for progress: at a first start, graphs are made
and a GPU's library compiles."""
_AHEAD = 30.0  # s that are asked for at a time while it loads
_LOOK = 1.0  # s between looks at what the status line says
_SLOW = 5.0  # s without a proof after which it says so


class Report:
    """The life of one server, told to one manager.

    The watchdog is fed by work alone: each time all threads that compute have come through with
    something (see `Runtime.prove`). A lane that is stuck, or an event loop that is, feeds nothing.
    """

    def __init__(self, manager: Manager, state: State) -> None:
        self._manager = manager
        self._state = state
        self._where = ""
        self._asked: float | None = None  # since when a proof is awaited
        self._said = ""

    @contextlib.asynccontextmanager
    async def loading(self) -> AsyncIterator[None]:
        """Ask for time while the model loads inside."""
        task = asyncio.create_task(self._extend())
        try:
            yield
        finally:
            await _ended(task)

    @contextlib.asynccontextmanager
    async def serving(self, where: str, runtime: Runtime) -> AsyncIterator[None]:
        """Ready at `where`; on leaving, it ends."""
        self._where = where
        self._said = self._status(runtime)
        self._manager.ready(self._said)
        tasks = [asyncio.create_task(self._tell(runtime))] if self._manager.listens else []
        if self._manager.watchdog is not None:
            tasks.append(asyncio.create_task(self._feed(runtime, self._manager.watchdog)))
        try:
            yield
        finally:
            self._manager.stopping("finishing open sessions")
            self._where = ""
            for task in tasks:
                await _ended(task)

    def reload(self) -> None:
        """Take what has changed of the files that may change while it runs."""
        _log.info("a renewed certificate is taken, keys always are; settings count at a start")
        if not self._where:
            return  # it takes all of it anyway, or none of it any more
        self._manager.reloading("taking what has changed")
        self._state.renew()
        self._manager.ready(self._said)

    async def _extend(self) -> None:
        began = time.monotonic()
        model = self._state.config.serving.model
        while (spent := time.monotonic() - began) < _LOADING:
            self._manager.loading(f"loading {model}, {spent:.0f} s", _AHEAD)
            await asyncio.sleep(min(5.0, _AHEAD / 4))

    async def _feed(self, runtime: Runtime, seconds: float) -> None:
        while True:
            self._asked = time.monotonic()
            await runtime.prove()
            self._asked = None
            self._manager.alive()
            await asyncio.sleep(seconds / 4)

    async def _tell(self, runtime: Runtime) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            if (said := self._status(runtime)) != self._said:
                self._said = said
                self._manager.status(said)

    def _status(self, runtime: Runtime) -> str:
        most = self._state.config.serving.max_sessions
        sessions = f"{len(self._state.parking)} of {most} sessions"
        said = f"{runtime.model} on {runtime.device.name} at {self._where}, {sessions}"
        if runtime.lost:
            return f"{said}; nothing is decoded: {runtime.lost}"
        if self._asked is not None and time.monotonic() - self._asked > _SLOW:
            return f"{said}; the engine does not come through"
        return said


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel it; what it failed by is no reason to end the server."""
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    except Exception:  # noqa: BLE001 – without it the watchdog judges
        _log.exception("systemd was not told how the server is")

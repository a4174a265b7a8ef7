"""Looks out for a device that hangs, with systemd or without."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

from edge_runtime.server.base import Runtime

_log = logging.getLogger(__name__)

OF_WATCHDOG = 0.5
"""Part of the time that systemd's watchdog waits: it ends a process without its finals."""

LEAST = 5.0
"""Seconds in which even a busy machine comes through with something."""

_OTHERS = 6.0
"""Seconds that others may take to be there for the last finals."""

_LOOKS = 10
"""Looks in the time that a device may take: a process that was stopped missed one at most."""


class Lookout:
    """Waits for everything that computes to come through with something, again and again."""

    def __init__(self, seconds: float, watchdog: float | None, hangs: Callable[[], None]) -> None:
        """`hangs` is called once where nothing came for `seconds` (0: never)."""
        self._seconds = seconds
        if seconds and watchdog is not None:
            self._seconds = min(seconds, max(LEAST, OF_WATCHDOG * watchdog))
        self._hangs = hangs

    @contextlib.asynccontextmanager
    async def over(self, runtime: Runtime) -> AsyncIterator[None]:
        """Look out inside this context."""
        task = asyncio.create_task(self._look(runtime)) if self._seconds else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _look(self, runtime: Runtime) -> None:
        while await self._proves(runtime):  # noqa: ASYNC110 – nothing tells of a hang
            await asyncio.sleep(self._seconds / 2)  # a proof wakes what may be asleep
        name = runtime.device.name
        _log.critical(
            "%s hangs: a lane, or the voice detector, came through with nothing for %g s; "
            "what can be finished is, then the process ends",
            name,
            self._seconds,
        )
        leaving = asyncio.create_task(runtime.leave(f"{name} hangs"))
        await asyncio.wait({leaving}, timeout=_OTHERS)
        self._hangs()

    async def _proves(self, runtime: Runtime) -> bool:
        """Whether it comes through; a runtime without a device has said so, and is no news."""
        proof = asyncio.create_task(runtime.prove())
        try:
            for _ in range(_LOOKS):
                done, _ = await asyncio.wait({proof}, timeout=self._seconds / _LOOKS)
                if done or runtime.lost:
                    return True
            return False
        finally:
            proof.cancel()
            await asyncio.gather(proof, return_exceptions=True)

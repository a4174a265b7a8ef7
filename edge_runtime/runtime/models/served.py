"""One of the models of a server, from its start to its end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from edge_runtime.runtime import Runtime
from edge_runtime.runtime.canary import Canary
from edge_runtime.runtime.load import Loaded


class Served:
    """`open` as long as it takes sessions; `leaving` is what lets go of it after that."""

    def __init__(self, runtime: Runtime | Canary) -> None:
        self.runtime = runtime
        self.name = runtime.model
        self.open = True
        self.leaving: asyncio.Task[None] | None = None
        self._running = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Let it serve; raises what `Runtime.serving` raises."""
        await self._running.enter_async_context(self.runtime.serving())

    async def stop(self) -> None:
        """Sessions that are open are cut off; does nothing where it does not serve."""
        await self._running.aclose()

    @property
    def loaded(self) -> Loaded:
        """Of the active one, where a candidate is on trial."""
        return self.runtime.loaded

    @property
    def sessions(self) -> int:
        """Streams that are open."""
        return self.runtime.sessions

    def told(self, *, default: bool) -> dict[str, Any]:
        """What `/healthz` says of it."""
        runtime, served = self.runtime, self.loaded.served
        return {
            "model": self.name,
            "default": default,
            "state": "serving" if self.open else "unloading",
            "languages": list(runtime.languages),
            "device": runtime.device.name,
            "precision": served.precision,
            "variant": served.variant,
            "fallback": runtime.fallback,
            "lost": runtime.lost,
            "sessions": self.sessions,
        }

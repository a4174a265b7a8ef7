"""What the handlers of one server share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from edge_runtime.config import Config
from edge_runtime.errors import ServerFull
from edge_runtime.metrics import Metrics
from edge_runtime.server.base import Limits, Runtime
from edge_runtime.server.microphones import Microphones
from edge_runtime.server.parking import Parking


@dataclass
class State:
    """`runtime` is there once it is warm; `closing` when the server shuts down.

    `uploads` counts the recordings that are being received or transcribed. `renew` takes what
    may be changed while it runs and has changed.
    """

    config: Config
    metrics: Metrics
    limits: Limits
    parking: Parking
    store: Path | None = None
    runtime: Runtime | None = None
    closing: bool = False
    renew: Callable[[], None] = lambda: None
    uploads: int = 0
    microphones: Microphones = field(default_factory=Microphones)
    started: float = field(default_factory=time.monotonic)

    def full(self) -> ServerFull:
        """What a client is told that finds no room."""
        most = self.config.serving.max_sessions
        return ServerFull(
            f"the server is full: {most} sessions are open",
            "Try again later, or raise max_sessions.",
        )


STATE = web.AppKey("state", State)

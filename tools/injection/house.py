"""A real server in this process, its witnesses, and what it may not leave behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import aiohttp

from edge_runtime.bench.process import Process
from edge_runtime.config import Admitting, Config, Serving
from edge_runtime.metrics import Metrics
from edge_runtime.runtime import Runtime
from edge_runtime.runtime.crowd import Crowd
from edge_runtime.server import Limits, State, create_app, hosting
from edge_runtime.server.state import STATE
from edge_runtime.session import Session
from injection.engine import Plan, failing

PIECE = 3200
PATIENCE = 120.0


@dataclass(frozen=True)
class Left:
    """What is there when nobody is connected."""

    sessions: int
    tasks: int
    threads: int
    files: int
    resident: int


@dataclass
class House:
    """A server, and clients to call it with."""

    url: str
    runtime: Runtime
    metrics: Metrics
    http: aiohttp.ClientSession
    plan: Plan
    state: State
    held: list[aiohttp.ClientWebSocketResponse] = field(default_factory=list)
    """Sockets that nobody reads and nobody closes."""

    async def connect(self, **start: Any) -> aiohttp.ClientWebSocketResponse:
        """A client that has said `start`, and reads what it asks for."""
        socket = await self.http.ws_connect(self.url, max_msg_size=0)
        await socket.send_json({"type": "start", "partials": False, **start})
        return socket

    def stream(self, token: str) -> Session:
        """The runtime's session of that resume token."""
        session = self.state.parking._tokens[token]._stream.session  # type: ignore[attr-defined]
        assert isinstance(session, Session)
        return session

    async def say(self, pcm: bytes, **start: Any) -> tuple[list[dict[str, Any]], int | None]:
        """All of it, unpaced, then `stop`; gives every event and how the socket closed.

        Decoded for its own sake, whoever said the same before.
        """
        socket = await self.connect(**start)
        ready = await socket.receive_json()
        self.plan.watched.add(self.stream(ready["resume"]).name)
        async with told(socket) as events:
            await send(socket, pcm)
            await socket.send_json({"type": "stop"})
            return await events, socket.close_code

    async def left(self, sessions: int = 0) -> Left:
        """What is there once that many sessions are open, or does not go away."""
        for _ in range(1000):
            if self.runtime.sessions <= sessions:
                break
            await asyncio.sleep(0.02)
        await self.drop()
        # A handler of a socket ends a moment after its session.
        for _ in range(100):
            gc.collect()
            tasks = len(asyncio.all_tasks())
            await asyncio.sleep(0.05)
            if len(asyncio.all_tasks()) == tasks:
                break
        return Left(
            self.runtime.sessions,
            len(asyncio.all_tasks()),
            threading.active_count(),
            sum(1 for _ in os.scandir("/proc/self/fd")),
            Process(os.getpid()).memory() or 0,
        )

    async def drop(self) -> None:
        """Let go of the sockets that are held."""
        while self.held:
            await abort(self.held.pop())


async def abort(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Be gone, without a word."""
    connection = socket._response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    socket._closed = True
    await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def told(
    socket: aiohttp.ClientWebSocketResponse,
) -> AsyncIterator[asyncio.Task[list[dict[str, Any]]]]:
    """A task that reads to the end; it ends with the block."""
    reading = asyncio.create_task(rest(socket))
    try:
        yield reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await socket.close()


async def rest(socket: aiohttp.ClientWebSocketResponse) -> list[dict[str, Any]]:
    """Every event until the socket closes."""
    events: list[dict[str, Any]] = []
    while True:
        message = await asyncio.wait_for(socket.receive(), PATIENCE)
        if message.type is not aiohttp.WSMsgType.TEXT:
            return events
        events.append(json.loads(message.data))


async def send(socket: aiohttp.ClientWebSocketResponse, pcm: bytes) -> None:
    """As 100 ms pieces, as fast as they are taken."""
    for first in range(0, len(pcm), PIECE):
        await socket.send_bytes(pcm[first : first + PIECE])


def text(events: list[dict[str, Any]]) -> str:
    """The finals' texts."""
    return " ".join(e["text"] for e in events if e["type"] == "final" and e["text"]).strip()


def finals_lost(events: list[dict[str, Any]]) -> list[int]:
    """Turns that began and have no final."""
    begun = {event["turn"] for event in events if event["type"] == "speech_start"}
    return sorted(begun - {event["turn"] for event in events if event["type"] == "final"})


@contextlib.asynccontextmanager
async def house(idle: float = 300.0, blocked: float = 30.0) -> AsyncIterator[House]:
    """A server of the usual model that shakes clients off after so many seconds.

    Nobody is refused for load: a drill on a busy machine is one of faults still.
    """
    config = Config(
        serving=Serving(port=0, max_sessions=64, idle_seconds=idle, resume_seconds=0.5),
        admitting=Admitting(keys="never"),
    )
    metrics, plan = Metrics(), Plan()
    app = create_app(config, metrics, Limits(linger=0.2, blocked=blocked, waiting=50))
    with failing(plan), patch.object(Crowd, "admit"):
        async with (
            hosting(app, lambda: Runtime(config, metrics=metrics)) as (url, runtime),
            aiohttp.ClientSession() as http,
        ):
            where = url.rstrip("/") + "/v1/stream"
            yield House(where, runtime, metrics, http, plan, app[STATE])  # type: ignore[arg-type]

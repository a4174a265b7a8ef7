"""A server on a real socket and how its clients read; what a command draws at a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, settings
from prometheus_client.parser import text_string_to_metric_families

from edge_runtime.device.cuda.card import resident
from edge_runtime.metrics import Metrics
from edge_runtime.server import create_app, hosting
from edge_runtime.server.state import STATE

GROWN = 200 << 20
"""Bytes that tests may leave behind before they are looked for."""

_resident = [0]

# Examples are as slow as the machine is busy: no fault of what they try.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


def pytest_configure() -> None:
    """Hear Ctrl-C, as commands under test must: a script that runs us in the back ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def nothing_piles_up():
    """Let go of servers and models of tests that are over.

    They hang on cycles, and to Python a model is a small object: it would let gigabytes wait.
    """
    yield
    if resident() - _resident[0] > GROWN:
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        _resident[0] = resident()


@dataclass
class House:
    """A running server with its runtime and figures, and clients to call it with."""

    url: str
    runtime: Any
    metrics: Metrics
    http: aiohttp.ClientSession
    app: aiohttp.web.Application
    sockets: list = field(default_factory=list)

    async def connect(self, start=None, **options):
        """A client; says `start` where that is given."""
        socket = await self.http.ws_connect(f"{self.url}/v1/stream", **options)
        self.sockets.append(socket)
        if start is not None:
            await socket.send_json({"type": "start", **start})
        return socket

    async def say(self, pcm, size=3200, pace=0.0, **start):
        """Send all of it, then stop; gives every event. `pace` 1 is that of a microphone."""
        socket = await self.connect(start)

        async def send():
            for first in range(0, len(pcm), size):
                await socket.send_bytes(pcm[first : first + size])
                await asyncio.sleep(size / 32000 * pace)
            await socket.send_json({"type": "stop"})

        sending = asyncio.create_task(send())
        events, code = await rest(socket)
        await sending
        assert code == 1000, events[-1:]
        return events

    @property
    def state(self):
        return self.app[STATE]


@pytest.fixture
async def host():
    """Starts servers: `await host(config, make, limits)`; `make(metrics)` gives the runtime."""
    async with hosts() as start:
        yield start


@contextlib.asynccontextmanager
async def hosts():
    """The same, for whoever has a server for several tests."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(config, make, limits):
            metrics = Metrics()
            stack.callback(log_emits, metrics)
            runtime = make(metrics)
            app = create_app(config, metrics, limits)
            url, _ = await stack.enter_async_context(hosting(app, lambda: runtime))
            http = await stack.enter_async_context(aiohttp.ClientSession())
            return House(url, runtime, metrics, http, app)

        yield start


def log_emits(metrics):
    """Append to the file EMIT_LOG how many finals of each dialect were out within how long."""
    path = os.environ.get("EMIT_LOG")
    if path is None:
        return
    for metric in text_string_to_metric_families(metrics.text().decode()):
        if metric.name == "edge_runtime_dialect_emit_seconds":
            with Path(path).open("a") as log:
                for _, labels, value, *_ in metric.samples:
                    if "le" in labels:
                        print(labels["dialect"], labels["le"], int(value), sep="\t", file=log)


async def rest(socket, seconds=60.0):
    """Every event until the socket closes, and the code it closed with."""
    events = []
    while True:
        message = await asyncio.wait_for(socket.receive(), seconds)
        if message.type is not aiohttp.WSMsgType.TEXT:
            return events, socket.close_code
        events.append(json.loads(message.data))


async def until(socket, kind, seconds=60.0):
    """Every event up to the first of that type."""
    events = []
    while not events or events[-1]["type"] != kind:
        message = await asyncio.wait_for(socket.receive(), seconds)
        assert message.type is aiohttp.WSMsgType.TEXT, (message, events)
        events.append(json.loads(message.data))
    return events


@pytest.fixture
def read():
    """How clients read: `read.rest(socket)`, `read.until(socket, type)`."""
    return SimpleNamespace(rest=rest, until=until)


@pytest.fixture
def drawn() -> Callable[..., str]:
    """`drawn(line, env=…)`: what a command that ends well writes to a terminal as its error."""

    def run(line: Sequence[str], env: Mapping[str, str]) -> str:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=theirs, env=env)
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # how Linux says that the other end was closed
            pass
        finally:
            os.close(ours)
        assert process.wait() == 0
        return shown.decode()

    return run

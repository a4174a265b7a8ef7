"""A stand-in runtime that writes down what it hears, and real sockets to a real server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace

import aiohttp
import numpy as np
import pytest

from edge_runtime.config import Config, Serving
from edge_runtime.errors import ServerFull
from edge_runtime.events import Closed, Final, Flushed, Partial, SpeechEnd, SpeechStart
from edge_runtime.metrics import Metrics
from edge_runtime.server import Limits, create_app, hosting
from edge_runtime.server.state import STATE

ROOM = 16000  # samples that a stream takes before its feeder waits
BLOCK = 1600  # samples it takes at a time


class StandInStream:
    """Every sample that is not 0 is speech; the text of a segment is how many it had.

    `pace` is seconds of work for each second of audio; `padding` makes texts long.
    """

    def __init__(self, options, pace=0.0, padding=0):
        self.options = options
        self.heard = []
        self._pace, self._padding = pace, padding
        self._items = deque()
        self._held = 0
        self._changed = asyncio.Event()
        self._segment = self._turn = 0
        self._speech = 0  # samples of speech in the open segment
        self._at = 0
        self.failure = None

    async def feed(self, pcm):
        for first in range(0, len(pcm), BLOCK):
            while self._held >= ROOM:
                self._changed.clear()
                await self._changed.wait()
            self.offer(pcm[first : first + BLOCK])

    def offer(self, pcm):
        self._held += len(pcm)
        self._put(pcm.copy())

    def flush(self):
        self._put("flush")

    def stop(self, reason="stop"):
        self._put(reason)

    def _put(self, item):
        self._items.append(item)
        self._changed.set()

    async def __aiter__(self):
        while True:
            while not self._items:
                self._changed.clear()
                await self._changed.wait()
            item = self._items.popleft()
            if self.failure is not None:
                raise self.failure
            if isinstance(item, str):
                for event in self._final("flush" if item == "flush" else "stop"):
                    yield event
                if item == "flush":
                    yield Flushed()
                    continue
                yield Closed(reason=item, audio_seconds=self._at / 16000)
                return
            await asyncio.sleep(len(item) / 16000 * self._pace)
            self._held -= len(item)
            self._changed.set()
            self.heard.append(item)
            self._at += len(item)
            count = int(np.count_nonzero(item))
            if count and not self._speech:
                yield SpeechStart(segment=self._segment, turn=self._turn, at=self._at / 16000)
            self._speech += count
            if self._speech and self.options.partials:
                yield Partial(
                    segment=self._segment, stable="", unstable=self._text(), start=0.0, end=1.0
                )

    def _final(self, reason):
        if not self._speech:
            return
        yield Final(
            segment=self._segment,
            turn=self._turn,
            reason=reason,
            text=self._text(),
            start=0.0,
            end=1.0,
            logprob=-0.1,
        )
        yield SpeechEnd(turn=self._turn, at=self._at / 16000)
        self._segment += 1
        self._turn += 1
        self._speech = 0

    def _text(self):
        return f"{self._speech}" + " " * self._padding


class StandInRuntime:
    """Opens stand-in streams, `most` at a time in all."""

    model = "stand-in"
    device = SimpleNamespace(name="paper")
    fallback = None
    lost = None

    def __init__(self, most=100, pace=0.0, padding=0):
        self.streams = []
        self._most, self._pace, self._padding = most, pace, padding

    def serving(self):
        return contextlib.nullcontext()

    def open(self, options):
        if len(self.streams) >= self._most:
            raise ServerFull("no room", "Try again later.")
        stream = StandInStream(options, self._pace, self._padding)
        self.streams.append(stream)
        return stream


@dataclass
class House:
    """A running server with its runtime and figures, and clients to call it with."""

    url: str
    runtime: StandInRuntime
    metrics: Metrics
    http: aiohttp.ClientSession
    app: object
    sockets: list = field(default_factory=list)

    async def connect(self, start=None, **options):
        socket = await self.http.ws_connect(f"{self.url}/v1/stream", **options)
        self.sockets.append(socket)
        if start is not None:
            await socket.send_json({"type": "start", **start})
        return socket

    @property
    def state(self):
        return self.app[STATE]


@pytest.fixture
async def house():
    """Starts servers: `await house(serving={...}, limits=Limits(...), pace=...)`."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(serving=None, limits=None, **stand_in):
            metrics = Metrics()
            config = Config(serving=Serving(port=0, **(serving or {})))
            app = create_app(config, metrics, limits or Limits(linger=0.5, grace=2.0))
            runtime = StandInRuntime(**stand_in)
            url, _ = await stack.enter_async_context(hosting(app, lambda: runtime))
            http = await stack.enter_async_context(aiohttp.ClientSession())
            return House(url, runtime, metrics, http, app)

        yield start


async def rest(socket, seconds=10.0):
    """Every event until the socket closes, and the code it closed with."""
    events = []
    while True:
        message = await asyncio.wait_for(socket.receive(), seconds)
        if message.type is not aiohttp.WSMsgType.TEXT:
            return events, socket.close_code
        events.append(json.loads(message.data))


async def until(socket, kind, seconds=10.0):
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
def speech():
    """`speech(samples)`: that many samples of s16le that all count as speech."""
    return lambda samples: np.full(samples, 1000, "<i2").tobytes()

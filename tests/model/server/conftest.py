"""A server with the real model on a real socket, real clips, and what must hold of all events."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import numpy as np
import pytest
import soundfile

from edge_runtime.config import Config, Serving
from edge_runtime.errors import ModelMissing
from edge_runtime.metrics import Metrics
from edge_runtime.runtime import Options, Runtime
from edge_runtime.server import Limits, create_app, hosting
from edge_runtime.server.state import STATE

DATA = Path(__file__).parents[4] / "shared" / "data"


@dataclass(frozen=True)
class Clip:
    """A recording: float32 samples of its own rate, and what is said in it."""

    audio: np.ndarray
    rate: int
    transcript: str

    @property
    def pcm(self):
        """The samples as `pcm_s16le` bytes."""
        return np.rint(self.audio * 32767).astype("<i2").tobytes()


@pytest.fixture(scope="session")
def clip():
    """`clip(id)`: a clip of the manifest; the test is skipped where there are none."""
    manifest = DATA / "manifest.tsv"
    if not manifest.is_file():
        pytest.skip(f"no clips at {DATA}")
    with manifest.open(newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file, delimiter="\t")}

    def load(name):
        audio, rate = soundfile.read(DATA / rows[name]["path"], dtype="float32")
        return Clip(audio, rate, rows[name]["transcript"])

    return load


@dataclass
class House:
    """A running server and what it counts; `stream` connects a client."""

    url: str
    runtime: Runtime
    metrics: Metrics
    http: aiohttp.ClientSession
    app: aiohttp.web.Application

    async def connect(self, **start):
        socket = await self.http.ws_connect(f"{self.url}/v1/stream")
        await socket.send_json({"type": "start", **start})
        return socket

    async def say(self, pcm, size=3200, pace=0.0, **start):
        """Send all of it, then stop; gives every event. `pace` 1 is that of a microphone."""
        socket = await self.connect(**start)

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
    def parking(self):
        return self.app[STATE].parking


@pytest.fixture
async def house():
    """Starts servers: `await house(resume_seconds=…)`; at the end nothing must be left open."""
    async with contextlib.AsyncExitStack() as stack:
        started = []

        async def start(limits=None, **serving):
            metrics = Metrics()
            config = Config(serving=Serving(port=0, **serving))
            try:
                runtime = Runtime(config, metrics=metrics)
            except ModelMissing as missing:
                pytest.skip(str(missing))
            app = create_app(config, metrics, limits or Limits(linger=2.0))
            url, _ = await stack.enter_async_context(hosting(app, lambda: runtime))
            http = await stack.enter_async_context(aiohttp.ClientSession())
            started.append(House(url, runtime, metrics, http, app))
            return started[-1]

        yield start
        for house in started:
            for _ in range(200):
                if not house.runtime.sessions and not len(house.parking):
                    break
                await asyncio.sleep(0.02)
            assert house.runtime.sessions == 0
            assert len(house.parking) == 0
            assert house.metrics.value("edge_runtime_sessions_open") == 0


async def rest(socket, seconds=60.0):
    events = []
    while True:
        message = await asyncio.wait_for(socket.receive(), seconds)
        if message.type is not aiohttp.WSMsgType.TEXT:
            return events, socket.close_code
        events.append(json.loads(message.data))


async def until(socket, kind, seconds=60.0):
    events = []
    while not events or events[-1]["type"] != kind:
        message = await asyncio.wait_for(socket.receive(), seconds)
        assert message.type is aiohttp.WSMsgType.TEXT, (message, events)
        events.append(json.loads(message.data))
    return events


def check(events, begun=0):
    """The legal order of events, and that nothing stable is taken back."""
    assert [event["seq"] for event in events] == list(range(begun + 1, begun + 1 + len(events)))
    turn = segment = None
    stable = ""
    for event in events:
        kind = event["type"]
        if kind == "ready":
            assert event is events[0]
        elif kind == "speech_start":
            assert turn is None
            turn, segment, stable = event["turn"], event["segment"], ""
        elif kind == "partial":
            assert (turn, segment) == (turn, event["segment"])
            assert turn is not None
            assert event["stable"].startswith(stable)
            stable = event["stable"]
        elif kind == "final":
            assert (turn, segment) == (event["turn"], event["segment"])
            assert event["text"].startswith(stable)
            assert event["start"] <= event["end"]
            segment, stable = segment + 1, ""
        elif kind == "speech_end":
            assert turn == event["turn"]
            turn = None
        elif kind in {"closed", "error"}:
            assert event is events[-1]
        else:
            assert kind in {"flushed", "overrun", "warning"}
    assert turn is None


def text(events):
    return " ".join(event["text"] for event in events if event["type"] == "final").strip()


async def directly(runtime, audio, **options):
    """The text of the same audio fed to the runtime without a server."""
    stream = runtime.open(Options(partials=False, **options))

    async def feed():
        await stream.feed(audio)
        stream.stop()

    feeding = asyncio.create_task(feed())
    texts = [event.text async for event in stream if event.__struct_config__.tag == "final"]
    await feeding
    return " ".join(texts).strip()


@pytest.fixture
def read():
    """How clients read and judge what they read."""
    return SimpleNamespace(rest=rest, until=until, check=check, text=text, directly=directly)

"""A server with the real model on a real socket, real clips, and what must hold of all events."""

from __future__ import annotations

import asyncio
import csv
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from edge_runtime.config import Admitting, Config, Dialects, Serving
from edge_runtime.errors import ModelMissing
from edge_runtime.runtime import Options, Runtime
from edge_runtime.server import Limits

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


@pytest.fixture
async def house(host):
    """Starts servers: `await house(resume_seconds=…)`; at the end nothing must be left open."""
    started = []

    async def start(limits=None, dialects=None, **serving):
        config = Config(
            serving=Serving(port=0, **serving),
            admitting=Admitting(keys="never"),  # whatever keys there are on this machine
            dialects=Dialects(**(dialects or {})),
        )
        started.append(
            await host(
                config, lambda metrics: _runtime(config, metrics), limits or Limits(linger=2.0)
            )
        )
        return started[-1]

    yield start
    for each in started:
        parking = each.state.parking
        for _ in range(200):
            if not each.runtime.sessions and not len(parking):
                break
            await asyncio.sleep(0.02)
        assert each.runtime.sessions == 0
        assert len(parking) == 0
        assert each.metrics.value("edge_runtime_sessions_open") == 0


def _runtime(config, metrics):
    try:
        return Runtime(config, metrics=metrics)
    except ModelMissing as missing:
        pytest.skip(str(missing))


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
def read(read):
    """How clients read, and how what they read is judged."""
    return SimpleNamespace(**vars(read), check=check, text=text, directly=directly)

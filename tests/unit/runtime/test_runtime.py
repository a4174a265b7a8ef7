"""Streams side by side without a model: loud is speech, and every update says the same word."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from edge_runtime import runtime as room
from edge_runtime.audio import FRAME
from edge_runtime.config import Config
from edge_runtime.decode.reading import Model
from edge_runtime.decode.shape import ModelShape
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.decode.update import Hypothesis
from edge_runtime.errors import DeviceError
from edge_runtime.events import Closed
from edge_runtime.runtime import Options, Runtime, Stream

SHAPE = ModelShape(
    decoder_tiles=(1,), decoder_layers=1, width=8, heads=1, padded_head_dim=8, past=128,
    vocabulary=4, begin=1, end=2, tokens_per_second=6.5, kernels=(127, 7, 3), strides=(64, 3, 2),
)  # fmt: skip


class Ears:
    """A voice detector that hears how loud it is."""

    broken = False

    def open(self) -> int:
        return 0

    def close(self, slot: int) -> None:
        assert slot == 0

    def probabilities(self, slots, frames) -> list[float]:
        if self.broken:
            raise DeviceError("the detector failed", "Start again.")
        return [0.95 if frame[0] else 0.02 for frame in frames]


class Runner:
    """A lane that always says the same."""

    def __init__(self, chain, size) -> None:
        self.chain, self.size = chain, size

    def run(self, updates, audio) -> list[Hypothesis]:
        return [Hypothesis(each, (3,), (-0.05,), (5.0,), (0,), True, 1) for each in updates]


@pytest.fixture
def ears() -> Ears:
    return Ears()


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, ears: Ears) -> Runtime:
    loaded = SimpleNamespace(
        name="stand-in",
        device=SimpleNamespace(lanes=1),
        chain=SimpleNamespace(shape=SHAPE),
        model=Model(SHAPE, Vocabulary(["<unk>", "<s>", "</s>", "\u2581a"])),
        ears=lambda rows: ears,
    )
    monkeypatch.setattr(room, "load", lambda *args, **kwargs: loaded)
    monkeypatch.setattr(room, "Runner", Runner)
    return Runtime(Config())


def sound(frames: int, level: float) -> np.ndarray:
    return np.full(frames * FRAME, level, np.float32)


async def until_closed(stream: Stream) -> Closed:
    last = [event async for event in stream][-1]
    assert isinstance(last, Closed)
    return last


async def test_a_stream_ends_while_another_is_always_behind(runtime: Runtime) -> None:
    async with runtime.serving():
        greedy, other = runtime.open(), runtime.open()

        async def flood() -> None:
            while True:
                greedy.offer(sound(40, 0.0))
                await asyncio.sleep(0)

        flooding = asyncio.create_task(flood())
        await asyncio.sleep(0.05)
        other.stop()
        closed = await asyncio.wait_for(until_closed(other), 5)
        flooding.cancel()
    assert closed.reason == "stop"


async def test_a_failing_detector_ends_its_streams_and_no_later_ones(
    runtime: Runtime, ears: Ears, caplog: pytest.LogCaptureFixture
) -> None:
    async with runtime.serving():
        ears.broken = True
        stream = runtime.open()
        await stream.feed(sound(4, 0.0))
        assert (await asyncio.wait_for(until_closed(stream), 5)).reason == "error"
        ears.broken = False
        later = runtime.open()
        await later.feed(sound(4, 0.0))
        later.stop()
        assert (await asyncio.wait_for(until_closed(later), 5)).reason == "stop"
    assert "the detector failed" in caplog.text


async def test_a_session_that_fails_ends_alone(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Hypothesis) -> None:
        raise RuntimeError("out of step")

    async with runtime.serving():
        stream, other = runtime.open(), runtime.open()
        monkeypatch.setattr(stream.session, "accept", fail)
        await stream.feed(sound(40, 1.0))
        assert (await asyncio.wait_for(until_closed(stream), 5)).reason == "error"
        other.stop()
        assert (await asyncio.wait_for(until_closed(other), 5)).reason == "stop"


async def test_speculations_that_speech_overtakes_are_counted(runtime: Runtime) -> None:
    metrics = runtime.metrics

    async def counted(name: str, **labels: str) -> float:
        for _ in range(100):
            if value := metrics.value(name, **labels):
                return value
            await asyncio.sleep(0.01)
        return 0.0

    async with runtime.serving():
        stream = runtime.open(Options(partials=False))
        await stream.feed(np.append(sound(30, 1.0), sound(6, 0.0)))
        assert await counted("edge_runtime_updates_total", purpose="speculative") == 1
        assert metrics.value("edge_runtime_speculations_overtaken_total") == 0
        await stream.feed(sound(10, 1.0))
        assert await counted("edge_runtime_speculations_overtaken_total") == 1

"""Models side by side: no more lanes work than there are cores, and nobody is passed over."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from edge_runtime.audio import FRAME
from edge_runtime.events import Closed, Final
from edge_runtime.runtime import Options
from edge_runtime.runtime.commons import Commons
from tests.fakes.lanes import FakeDevice
from tests.waiting import until

LIVE = Options(partials=False, speculate=False)
RECORDED = Options(partials=False, speculate=False, live=False)
TURN = np.append(np.full(40 * FRAME, 1.0, np.float32), np.zeros(30 * FRAME, np.float32))


@pytest.fixture
def pair(make, devices):
    """Two models on a CPU with that many cores; a device each, so that they are told apart."""

    def made(cores: int):
        runtimes = []
        for _ in range(2):
            device = devices["cpu"] = FakeDevice("cpu", lanes=cores)
            runtimes.append((make("cpu"), device))
        (one, first), (other, second) = runtimes
        other.follow(one)
        return (one, first), (other, second)

    return made


async def finals(stream) -> int:
    stream.stop()
    events = [event async for event in stream]
    assert isinstance(events[-1], Closed)
    return sum(isinstance(event, Final) for event in events)


async def test_two_models_together_use_each_core_once(pair) -> None:
    (one, first), (other, second) = pair(2)
    for device in (first, second):
        device.held = {f"s{number}" for number in range(1, 7)}
    async with one.serving(), other.serving():
        streams = [runtime.open(LIVE) for runtime in (one, other) for _ in range(3)]
        assert len({stream.session.name for stream in streams}) == 6
        for stream in streams:
            await stream.feed(TURN)
        await until(lambda: all(stream.wanted_at or stream.served_at for stream in streams))
        flying = [len(one.flying), len(other.flying)]
        assert sum(flying) == 2, "cores"
        first.free.set()
        second.free.set()
        assert await asyncio.gather(*map(finals, streams)) == [1] * 6
    assert len(first.ran) == len(second.ran) == 3


async def test_a_core_that_falls_free_goes_to_the_model_that_waited_longest(pair) -> None:
    (one, first), (other, second) = pair(1)
    first.held = {"s1"}
    async with one.serving(), other.serving():
        busy = one.open(LIVE)
        await busy.feed(TURN)
        await until(lambda: busy.served_at > 0)
        waits = other.open(LIVE)
        for stream in (waits, busy):
            await stream.feed(TURN)
        await until(lambda: waits.wanted_at is not None)
        assert second.ran == []
        first.free.set()
        await until(lambda: bool(second.ran))
        assert await finals(busy) == 2
        assert await finals(waits) == 1


async def test_recordings_of_one_model_leave_a_core_to_a_speaker_of_the_other(pair) -> None:
    (one, first), (other, second) = pair(2)
    first.held = {"s1", "s2"}
    async with one.serving(), other.serving():
        recordings = [one.open(RECORDED) for _ in range(2)]
        speaker = other.open(LIVE)
        for stream in (*recordings, speaker):
            await stream.feed(TURN)
        assert await finals(speaker) == 1
        assert first.ran == []
        assert second.ran == ["s3"]
        first.free.set()
        assert await asyncio.gather(*map(finals, recordings)) == [1, 1]


async def test_all_are_one_crowd(pair) -> None:
    (one, _), (other, _) = pair(2)
    async with one.serving(), other.serving():
        streams = [runtime.open() for runtime in (one, other)]
        for stream in streams:
            await stream.feed(np.full(40 * FRAME, 1.0, np.float32))
        for runtime in (one, other):
            await until(lambda runtime=runtime: runtime.about["load"]["speakers"] == 2)
            assert runtime.about["load"]["lanes"] == 2


async def test_the_last_one_that_serves_switches_the_sensors_off(pair) -> None:
    (one, _), (other, _) = pair(1)
    async with other.serving():
        async with one.serving():
            pass
        stream = other.open(LIVE)
        await stream.feed(TURN)
        assert await finals(stream) == 1
    commons: Commons = one._commons
    assert commons._watching is None
    assert commons.lanes == 1, "a board without members still has one lane to speak of"
    assert not any(thread.name.startswith("lane-") for thread in threading.enumerate())

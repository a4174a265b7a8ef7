"""Recordings beside people who speak: their text waits, that of those who speak does not."""

from __future__ import annotations

import numpy as np

from edge_runtime.audio import FRAME
from edge_runtime.events import Closed, Final
from edge_runtime.runtime import Options
from tests.waiting import until

RECORDED = Options(partials=False, speculate=False, live=False)
LIVE = Options(partials=False, speculate=False)
TURN = np.append(np.full(40 * FRAME, 1.0, np.float32), np.zeros(30 * FRAME, np.float32))


async def test_one_lane_is_left_to_those_who_speak(make, devices) -> None:
    device = devices["cpu"]
    device.lanes = 2
    device.held = {"s1", "s2"}
    runtime = make("cpu")
    async with runtime.serving():
        recordings = [runtime.open(RECORDED) for _ in range(2)]
        speaker = runtime.open(LIVE)
        for stream in recordings:
            await stream.feed(TURN)
        await until(lambda: all(stream.wanted_at or stream.served_at for stream in recordings))
        assert sum(stream.served_at > 0 for stream in recordings) == 1
        await speaker.feed(TURN)
        speaker.stop()
        events = [event async for event in speaker]
        assert any(isinstance(event, Final) for event in events)
        assert device.ran == ["s3"]
        await until(lambda: all(stream.served_at > 0 for stream in recordings))  # nobody speaks
        device.free.set()
        for stream in recordings:
            stream.stop()
            assert isinstance([event async for event in stream][-1], Closed)
    assert sorted(device.ran) == ["s1", "s2", "s3"]


async def test_on_one_lane_a_final_of_a_speaker_goes_before_those_of_a_recording(
    make, devices
) -> None:
    device = devices["cpu"]
    device.held = {"s1"}
    runtime = make("cpu")
    async with runtime.serving():
        held, recording, speaker = (runtime.open(each) for each in (LIVE, RECORDED, LIVE))
        await held.feed(TURN)
        await until(lambda: held.served_at > 0)
        for stream in (recording, recording, speaker):
            await stream.feed(TURN)
        await until(lambda: recording.wanted_at is not None and speaker.wanted_at is not None)
        device.free.set()
        for stream in (held, recording, speaker):
            stream.stop()
            assert isinstance([event async for event in stream][-1], Closed)
    assert device.ran[:2] == ["s1", "s3"]
    assert device.ran.count("s2") == 2


async def test_recordings_alone_use_every_lane(make, devices) -> None:
    device = devices["cpu"]
    device.lanes = 2
    device.held = {"s1", "s2"}
    runtime = make("cpu")
    async with runtime.serving():
        recordings = [runtime.open(RECORDED) for _ in range(2)]
        for stream in recordings:
            await stream.feed(TURN)
        await until(lambda: all(stream.served_at > 0 for stream in recordings))
        device.free.set()
        for stream in recordings:
            stream.stop()
            assert isinstance([event async for event in stream][-1], Closed)

"""Streams over the running system: real speech, faster than real time, side by side."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from edge_runtime.audio import RATE
from edge_runtime.config import Config, Listening, Serving
from edge_runtime.engines.store import Store
from edge_runtime.errors import ConfigError, ModelMissing, ServerFull
from edge_runtime.events import (
    Closed,
    Event,
    Final,
    Flushed,
    Overrun,
    Partial,
    SpeechEnd,
    SpeechStart,
)
from edge_runtime.runtime import Options, Runtime, Stream

QUIET = Options(partials=False)
SAID = ["That's a likely story.", "I can show you the tracks."]


@pytest.fixture(scope="module")
def runtime(loaded) -> Runtime:
    return Runtime(Config(serving=Serving(max_sessions=4)))


@pytest.fixture(scope="module")
def clip(spoken) -> np.ndarray:
    return spoken("1867-154075-0005")


async def collect(stream: Stream) -> list[Event]:
    return [event async for event in stream]


async def play(runtime: Runtime, samples: np.ndarray, options: Options, piece: int = 1600
               ) -> list[Event]:  # fmt: skip
    """Feed as fast as it is taken, then stop; all events."""
    stream = runtime.open(options)
    reading = asyncio.create_task(collect(stream))
    for start in range(0, len(samples), piece):
        await stream.feed(samples[start : start + piece])
    stream.stop()
    return await asyncio.wait_for(reading, 60)


def finals(events: list[Event]) -> list[Final]:
    return [event for event in events if isinstance(event, Final)]


async def test_a_stream(runtime: Runtime, clip: np.ndarray) -> None:
    async with runtime.serving():
        events = await play(runtime, np.pad(clip, (0, RATE)), Options())
    assert [final.text for final in finals(events)] == SAID
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert isinstance(events[0], SpeechStart)
    assert isinstance(events[-1], Closed)
    assert events[-1].reason == "stop"
    stable = ""
    for event in events:
        if isinstance(event, SpeechStart):
            stable = ""
        elif isinstance(event, Partial):
            assert event.stable.startswith(stable)
            stable = event.stable
        elif isinstance(event, Final):
            assert event.text.startswith(stable)
    assert runtime.sessions == 0
    assert runtime.model == "moonshine-tiny-en"
    assert runtime.fallback is None


async def test_streams_far_faster_than_real_time_lose_no_word(runtime, spoken, clip) -> None:
    """Without partials, alone and beside three others: the same events."""
    demo = spoken("demo")
    async with runtime.serving():
        alone = await play(runtime, demo, QUIET)
        again, *others = await asyncio.gather(
            play(runtime, demo, QUIET, piece=48_000),
            *(play(runtime, clip, QUIET, piece=7000) for _ in range(2)),
            play(runtime, clip, Options(), piece=320),
        )
    assert again == alone
    assert not [event for event in alone if isinstance(event, Overrun)]
    text = " ".join(final.text for final in finals(alone)).lower()
    for words in ("had then leisure to consider", "rather selfish", "made amiable himself"):
        assert words in text
    for events in others:
        assert [final.text for final in finals(events)] == SAID


async def test_a_flush_is_answered_and_the_stream_goes_on(runtime, clip) -> None:
    async with runtime.serving():
        stream = runtime.open(QUIET)
        reading = asyncio.create_task(collect(stream))
        await stream.feed(clip[: int(1.2 * RATE)])
        stream.flush()
        await stream.feed(clip[int(1.2 * RATE) :])
        stream.stop("idle")
        events = await asyncio.wait_for(reading, 30)
    kinds = [type(event) for event in events]
    assert kinds[:4] == [SpeechStart, Final, SpeechEnd, Flushed]
    assert events[1].reason == "flush"
    assert finals(events)[-1].text == SAID[1]
    assert events[-1].reason == "idle"


async def test_a_stop_without_silence_loses_nothing(runtime, clip) -> None:
    frames = clip[: len(clip) // 320 * 320].reshape(-1, 320)
    level = 10 * np.log10((frames**2).mean(axis=1) + 1e-12)
    loud = int(np.flatnonzero(level > np.percentile(level, 95) - 30)[-1] + 1) * 320
    async with runtime.serving():
        events = await play(runtime, clip[:loud], Options())
    assert [final.text.rstrip(".") for final in finals(events)] == [text[:-1] for text in SAID]
    assert finals(events)[-1].reason == "stop"


async def test_a_live_source_that_outruns_the_device_loses_its_oldest(runtime, spoken) -> None:
    """It is told so, and neither the stream nor those that come after it are hurt."""
    demo = spoken("demo")
    async with runtime.serving():
        stream = runtime.open(Options())
        for _ in range(4):
            stream.offer(demo)  # two minutes at once
        stream.stop()
        events = await asyncio.wait_for(collect(stream), 60)
        after = await play(runtime, demo[: 8 * RATE], QUIET)
    overruns = [event for event in events if isinstance(event, Overrun)]
    assert sum(event.dropped_ms for event in overruns) >= 80_000
    assert isinstance(events[-1], Closed)
    assert events[-1].audio_seconds == round(4 * len(demo) / RATE, 3)
    assert finals(events)
    assert finals(after)[0].text


async def test_a_live_source_in_time_loses_nothing(runtime, clip) -> None:
    async with runtime.serving():
        stream = runtime.open(Options())
        for start in range(0, len(clip), 1600):
            stream.offer(clip[start : start + 1600])
            await asyncio.sleep(0.01)
        stream.stop()
        events = await asyncio.wait_for(collect(stream), 60)
    assert [final.text for final in finals(events)] == SAID


async def test_only_so_many_streams(runtime) -> None:
    async with runtime.serving():
        streams = [runtime.open() for _ in range(4)]
        assert runtime.sessions == 4
        with pytest.raises(ServerFull, match=r"all 4 sessions.*max_sessions"):
            runtime.open()
        streams[1].stop()
        assert await collect(streams[1]) == [Closed(seq=1, reason="stop", audio_seconds=0.0)]
        streams[1] = runtime.open()
        for stream in streams:
            stream.stop()
            await collect(stream)
    assert runtime.sessions == 0


async def test_audio_after_the_end_is_let_go(runtime, clip) -> None:
    """A closed stream's memory belongs to the next one."""
    async with runtime.serving():
        first = runtime.open(QUIET)
        first.stop()
        await collect(first)
        second = runtime.open(QUIET)
        await second.feed(clip[:RATE])
        await first.feed(clip)
        first.offer(clip)
        await second.feed(clip[RATE:])
        second.stop()
        events = await asyncio.wait_for(collect(second), 60)
    assert [final.text for final in finals(events)] == SAID


async def test_a_late_reader_finds_the_newest_partial_of_several(runtime, clip) -> None:
    async with runtime.serving():
        stream = runtime.open(Options())
        for start in range(0, 20_000, 1600):
            await stream.feed(clip[start : start + 1600])
            await asyncio.sleep(0.05)
        stream.stop()
        while not stream.finished:  # noqa: ASYNC110 - nothing is read, so nothing wakes us
            await asyncio.sleep(0.01)
        events = await asyncio.wait_for(collect(stream), 60)
    kinds = [type(event) for event in events]
    assert kinds.count(Partial) <= 1
    assert kinds[-3:] == [Final, SpeechEnd, Closed]


async def test_the_longest_segment_that_can_be_configured_fits(loaded, spoken) -> None:
    """Audio is held back while there is no room: there must be room for a whole segment."""
    config = Config(listening=Listening(cap_ms=30_000))
    runtime = Runtime(config)
    options = Options(partials=False, endpoint_ms=10_000)
    twice = np.concatenate([spoken("demo"), spoken("demo")[: 6 * RATE]])
    async with runtime.serving():
        events = await asyncio.wait_for(play(runtime, twice, options), 60)
    assert [final.reason for final in finals(events)] == ["cap", "stop"]


def test_what_cannot_be_loaded(tmp_path) -> None:
    with pytest.raises(ModelMissing, match="edge-runtime pull moonshine-tiny-en"):
        Runtime(Config(), store=Store(tmp_path))
    with pytest.raises(ConfigError, match="unknown device 'npu'"):
        Runtime(Config(), device="npu")


async def test_readers_are_told_when_serving_ends_before_their_stream(clip) -> None:
    runtime = Runtime(Config())
    async with runtime.serving():
        stream = runtime.open(QUIET)
        await stream.feed(clip[:16000])
        reading = asyncio.create_task(collect(stream))
        await asyncio.sleep(0)
    events = await asyncio.wait_for(reading, 10)
    assert isinstance(events[-1], Closed)
    assert events[-1].reason == "shutdown"
    assert runtime.sessions == 0

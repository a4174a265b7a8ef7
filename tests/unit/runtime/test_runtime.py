"""Streams side by side without a model: loud is speech, and every update says the same word."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from edge_runtime.audio import FRAME, RATE
from edge_runtime.decode.round import Round
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Hypothesis
from edge_runtime.errors import AudioError, DeviceError, EdgeRuntimeError
from edge_runtime.events import Closed, Final, Overrun, Partial, SpeechEnd
from edge_runtime.events import Warning as WarningEvent
from edge_runtime.runtime import Options, Runtime, Stream, hearing, lanes
from tests.fakes.lanes import FakeRunner, lanes_of
from tests.waiting import until


@pytest.fixture
def runtime(make) -> Runtime:
    return make("cpu")


def sound(frames: int, level: float) -> np.ndarray:
    return np.full(frames * FRAME, level, np.float32)


async def until_closed(stream: Stream) -> Closed:
    last = [event async for event in stream][-1]
    assert isinstance(last, Closed)
    return last


async def test_a_stream_is_opened_while_it_serves_and_at_no_other_time(runtime: Runtime) -> None:
    for _ in "ab":
        with pytest.raises(EdgeRuntimeError, match=r"inside `async with runtime\.serving\(\)`"):
            runtime.open()
        async with runtime.serving():
            runtime.open().stop()
    assert runtime.sessions == 0


async def test_a_device_that_keeps_failing_warns_once(runtime: Runtime, devices) -> None:
    """Until an update goes well: then the next failure is news. Another error is news at once."""
    breaks, turn = devices["cpu"].breaks, np.append(sound(40, 1.0), sound(30, 0.0))
    async with runtime.serving():
        stream = runtime.open(Options(partials=False))
        events = []
        for broken in (
            DeviceError("no memory", "Get more."),
            DeviceError("no memory", "Get more."),
            AudioError("too long", "Send less."),
            DeviceError("no memory", "Get more."),
            None,
            DeviceError("no memory", "Get more."),
        ):
            breaks.clear()
            if broken is not None:
                breaks["run"] = broken
            await stream.feed(turn)
            async for event in stream:
                events.append(event)
                if isinstance(event, SpeechEnd):
                    break
    said = [event.message for event in events if isinstance(event, WarningEvent)]
    assert said == [
        "no memory. Get more.", "too long. Send less.", "no memory. Get more.",
    ]  # fmt: skip
    assert [event.text for event in events if isinstance(event, Final)] == [
        "", "", "", "", "a a", "",
    ]  # fmt: skip


async def test_segments_are_cut_to_what_the_device_takes(make, devices) -> None:
    """An engine for 4 s, less the padding of 0.4 s and a second: the settings say 16 s."""
    devices["cpu"].size = Size(1, 4 * RATE)
    runtime = make("cpu")
    async with runtime.serving():
        stream = runtime.open(Options(partials=False))
        await stream.feed(sound(140, 1.0))
        stream.stop()
        finals = [event async for event in stream if isinstance(event, Final)]
    assert [final.reason for final in finals] == ["cap", "cap", "stop"]
    assert all(0 < final.end - final.start <= 2.6 for final in finals)


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
    runtime: Runtime, ears, caplog: pytest.LogCaptureFixture
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


async def test_an_update_queues_from_when_it_is_wanted_until_a_lane_has_it(
    runtime: Runtime, devices
) -> None:
    """The one lane is held by the first stream: the second waits, and the first never did."""
    turn = np.append(sound(40, 1.0), sound(30, 0.0))
    device = devices["cpu"]
    async with runtime.serving():
        first, second = (runtime.open(Options(partials=False)) for _ in "ab")
        device.held = {first.session.name}
        began = time.perf_counter()
        await first.feed(turn)
        await until(lambda: not first.session.due)
        heard = time.perf_counter()
        await second.feed(turn)
        await until(lambda: second.wanted_at is not None and not second.session.due)
        seen = time.perf_counter()
        await asyncio.sleep(0.3)
        freed = time.perf_counter()
        device.free.set()
        for stream in (first, second):
            stream.stop()
            await asyncio.wait_for(until_closed(stream), 5)
        ended = time.perf_counter()

    def queued(purpose: str) -> float:
        return runtime.metrics.value(
            "edge_runtime_stage_seconds_sum", purpose=purpose, stage="queue"
        )

    # The first was taken at once, on speculation; the second came too late for that.
    assert device.ran == [first.session.name, second.session.name]
    assert 0 <= queued("speculative") <= heard - began
    assert 0.3 <= freed - seen <= queued("final") <= ended - heard


async def test_what_is_not_wanted_any_more_does_not_queue(runtime: Runtime, devices) -> None:
    """Speech goes on before a lane was free for the speculation that its pause was the end."""
    device = devices["cpu"]
    async with runtime.serving():
        first, second = (runtime.open(Options(partials=False)) for _ in "ab")
        device.held = {first.session.name}
        await first.feed(np.append(sound(40, 1.0), sound(30, 0.0)))
        await until(lambda: not first.session.due)
        await second.feed(np.append(sound(30, 1.0), sound(6, 0.0)))
        await until(lambda: second.wanted_at is not None and not second.session.due)
        await second.feed(sound(10, 1.0))
        await until(lambda: not second.session.due)
        assert second.session.wants is None
        assert second.wanted_at is None
        device.free.set()


@pytest.mark.parametrize("purpose", ["final", "partial"])
async def test_what_a_slow_lane_reads_too_late_is_not_believed(
    make, devices, ears, monkeypatch: pytest.MonkeyPatch, purpose: str
) -> None:
    """A live source overwrites the beginning meanwhile: what is told is that of the rest."""

    class Slow(FakeRunner):
        """Says a word for each ten frames of sound that it finds, when it looks at last."""

        def rounds(self, updates, audio, recalled) -> Iterator[Round]:
            ((said,),) = (each.done.values() for each in super().rounds(updates, audio))
            found = sum(int(piece.sum()) for piece in audio[0]) // (10 * FRAME)
            yield Round({0: replace(said, tokens=(3,) * found, logprobs=(-0.05,) * found,
                                    margins=(5.0,) * found, frames=(0,) * found)})  # fmt: skip

    monkeypatch.setattr(lanes, "make_runners", lanes_of(Slow))
    runtime, device = make("cpu"), devices["cpu"]
    async with runtime.serving():
        stream = runtime.open(Options(partials=purpose == "partial"))
        device.held = {stream.session.name}
        stream.offer(sound(42, 1.0))
        if purpose == "final":
            stream.offer(sound(30, 0.0))
        await until(lambda: not runtime._decoder.idle and not stream.session.due)
        lost, told, said = 10 * FRAME, threading.Event(), []
        judged, accept = ears.hear, stream.session.accept
        # What the lane says is taken in before the silence is heard.
        monkeypatch.setattr(ears, "hear", lambda *given: told.wait(5) and judged(*given))
        stream.offer(np.zeros(stream.session.room + lost, np.float32))
        monkeypatch.setattr(stream.session, "accept", lambda it: said.append(it) or accept(it))
        device.free.set()
        await until(lambda: said)
        told.set()
        stream.stop()
        events = [event async for event in stream]
    (overrun,) = [event for event in events if isinstance(event, Overrun)]
    assert overrun.dropped_ms == lost * 1000 // RATE
    # Half as much again as was lost is left out, for what may come meanwhile.
    begin = lost * 5 // 2 / RATE
    partials = {(e.start, e.stable + e.unstable) for e in events if isinstance(e, Partial)}
    assert partials == ({(begin, "a")} if purpose == "partial" else set())
    assert [(e.start, e.text) for e in events if isinstance(e, Final)] == [(begin, "a")]


@pytest.mark.parametrize(("streams", "waits"), [(1, False), (12, True)])
async def test_frames_are_judged_at_once_for_few_and_together_for_many(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, streams: int, waits: bool
) -> None:
    real, waited = asyncio.sleep, []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await real(0)

    monkeypatch.setattr(hearing, "EACH", hearing.SHORT if streams == 1 else 1.0)
    monkeypatch.setattr(hearing, "WAIT", 5.0)
    async with runtime.serving():
        monkeypatch.setattr(hearing, "asyncio", SimpleNamespace(**vars(asyncio) | {"sleep": sleep}))
        some = [runtime.open() for _ in range(streams)]
        for stream in some:
            stream.offer(sound(2, 0.0))
        while any(stream.session.due for stream in some):
            await real(0.001)
        await real(0.01)
    assert bool(waited) == waits
    assert all(0.001 < seconds <= 5.0 for seconds in waited)

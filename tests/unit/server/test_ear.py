"""Sessions that listen to the device's own microphone; the microphone itself is a stand-in."""

from __future__ import annotations

import asyncio
import queue

import numpy as np
import pytest

from edge_runtime.errors import MicrophoneError
from edge_runtime.server import reception


class StandInMicrophone:
    """Gives the blocks that a test records, until it is closed or breaks."""

    def __init__(self):
        self.closed = False
        self._blocks = queue.SimpleQueue()

    def record(self, samples):
        self._blocks.put(np.full(samples, 0.1, np.float32))

    def break_down(self):
        self._blocks.put(MicrophoneError("the microphone stopped", "Check its cable."))

    def close(self):
        self.closed = True
        self._blocks.put(None)

    def __iter__(self):
        while (block := self._blocks.get()) is not None:
            if isinstance(block, Exception):
                raise block
            yield block


@pytest.fixture
def microphone(monkeypatch):
    microphone = StandInMicrophone()
    microphone.asked = []

    def opened(source):
        microphone.asked.append(source)
        return microphone

    monkeypatch.setattr(reception, "open_microphone", opened)
    return microphone


def texts(events):
    return [event["text"] for event in events if event["type"] == "final"]


async def test_the_microphone_is_heard_until_stop(house, read, microphone):
    server = await house()
    socket = await server.connect({"source": "mic:USB", "partials": False})
    await read.until(socket, "ready")
    assert microphone.asked == ["mic:USB"]
    microphone.record(1600)
    await read.until(socket, "speech_start")
    await socket.send_json({"type": "flush"})
    assert texts(await read.until(socket, "flushed")) == ["1600"]
    microphone.record(700)
    microphone.record(100)
    await socket.send_json({"type": "stop"})
    events, code = await read.rest(socket)
    assert texts(events) == ["800"]
    assert code == 1000
    assert microphone.closed
    assert server.metrics.value("edge_runtime_audio_seconds_total") == pytest.approx(2400 / 16000)


async def test_a_microphone_session_takes_no_audio(house, read, microphone):
    server = await house()
    socket = await server.connect({"source": "mic:"})
    microphone.record(1600)
    await read.until(socket, "partial")
    await socket.send_bytes(bytes(320))
    events, code = await read.rest(socket)
    assert texts(events) == ["1600"]
    assert (events[-1]["code"], code) == ("unexpected_audio", 1003)
    assert microphone.closed


async def test_a_microphone_that_breaks_down_is_reported_after_the_final(house, read, microphone):
    server = await house()
    socket = await server.connect({"source": "mic:", "partials": False})
    microphone.record(1600)
    microphone.break_down()
    events, code = await read.rest(socket)
    assert texts(events) == ["1600"]
    assert (events[-1]["code"], events[-1]["fix"]) == ("microphone", "Check its cable.")
    assert code == 1011


async def test_the_microphone_is_let_go_when_the_client_vanishes(house, read, microphone):
    server = await house()
    socket = await server.connect({"source": "mic:"})
    microphone.record(1600)
    await read.until(socket, "partial")
    await socket.close()
    for _ in range(100):
        if microphone.closed:
            break
        await asyncio.sleep(0.02)
    assert microphone.closed


async def test_a_full_server_does_not_keep_the_microphone(house, read, microphone):
    server = await house(most=0)
    socket = await server.connect({"source": "mic:"})
    (error,), code = await read.rest(socket)
    assert (error["code"], code) == ("full", 1013)
    assert microphone.closed

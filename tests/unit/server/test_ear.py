"""Sessions that listen to the device's own microphone; the microphone itself is a stand-in."""

from __future__ import annotations

import asyncio

import pytest

from edge_runtime.config import Profile


def texts(events):
    return [event["text"] for event in events if event["type"] == "final"]


async def until(true):
    for _ in range(100):
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came to that")


async def test_the_microphone_is_heard_until_stop(house, read, captures):
    server = await house()
    socket = await server.connect({"source": "mic:USB", "partials": False})
    await read.until(socket, "ready")
    (microphone,) = captures
    assert microphone.profile == Profile(device="USB")
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


async def test_many_listen_to_one_and_the_last_closes_it(house, read, captures):
    server = await house()
    start = {"source": "mic:USB", "partials": False}
    sockets = await asyncio.gather(*(server.connect(start) for _ in range(5)))
    for socket in sockets:
        await read.until(socket, "ready")
    (microphone,) = captures
    for number, socket in enumerate(sockets, 1):
        microphone.record(1600)
        await read.until(socket, "speech_start")
        await socket.send_json({"type": "stop"})
        events, _ = await read.rest(socket)
        assert texts(events) == [f"{1600 * number}"]
        assert microphone.closed == (number == 5)
    again = await server.connect(start)
    await read.until(again, "ready")
    assert len(captures) == 2


async def test_a_name_of_the_configuration_is_its_profile(house, read, captures):
    desk = Profile(device="Array", channel=2, rate=48000, gain_db=6.0)
    usual = Profile(device="Headset")
    server = await house(microphones={"desk": desk, "default": usual})
    for source, profile in (("mic:desk", desk), ("mic:", usual), ("mic:x", Profile(device="x"))):
        await read.until(await server.connect({"source": source}), "ready")
        assert captures[-1].profile == profile


async def test_a_microphone_that_is_not_there_is_an_error(house, read, captures):
    server = await house()
    socket = await server.connect({"source": "mic:none"})
    (error,), code = await read.rest(socket)
    assert (error["code"], error["fix"], code) == ("microphone", "There are 0: USB.", 1008)
    await read.until(await server.connect({"source": "mic:USB"}), "ready")


async def test_what_is_odd_about_the_microphone_is_a_warning(house, read, captures):
    server = await house()
    socket = await server.connect({"source": "mic:", "partials": False})
    await read.until(socket, "ready")
    captures[0].warn("microphone_lost")
    event = (await read.until(socket, "warning"))[-1]
    assert (event["code"], event["message"]) == ("microphone_lost", "as it is said")


async def test_a_microphone_session_takes_no_audio(house, read, captures):
    server = await house()
    socket = await server.connect({"source": "mic:"})
    await read.until(socket, "ready")
    captures[0].record(1600)
    await read.until(socket, "partial")
    await socket.send_bytes(bytes(320))
    events, code = await read.rest(socket)
    assert texts(events) == ["1600"]
    assert (events[-1]["code"], code) == ("unexpected_audio", 1003)
    assert captures[0].closed


async def test_the_microphone_is_let_go_when_the_client_vanishes(house, read, captures):
    server = await house()
    socket = await server.connect({"source": "mic:"})
    await read.until(socket, "ready")
    captures[0].record(1600)
    await read.until(socket, "partial")
    await socket.close()
    await until(lambda: captures[0].closed)


async def test_a_full_server_does_not_keep_the_microphone(house, read, captures):
    server = await house(most=0)
    socket = await server.connect({"source": "mic:"})
    (error,), code = await read.rest(socket)
    assert (error["code"], code) == ("full", 1013)
    assert captures[0].closed


async def test_the_gate_makes_silence_for_as_long_as_any_reason_holds(house, read, captures):
    """The stand-in counts samples that are not 0, and hears all of them."""
    server = await house()
    socket = await server.connect({"source": "mic:", "partials": False, "gated": "push"})
    await read.until(socket, "ready")

    async def heard(*gates):
        for is_open, why in gates:
            await socket.send_json({"type": "gate", "open": is_open, "why": why})
        await socket.send_json({"type": "flush"})  # answered when the gates before it hold
        await read.until(socket, "flushed")
        captures[0].record(100)
        await socket.send_json({"type": "flush"})
        return texts(await read.until(socket, "flushed")) == ["100"]

    assert not await heard()
    assert not await heard((True, "mute"), (True, "playback"))
    assert await heard((True, "push"))
    assert not await heard((False, "mute"), (False, "playback"))
    assert not await heard((True, "playback"))
    assert await heard((True, "mute"))
    await socket.send_json({"type": "stop"})
    events, _ = await read.rest(socket)
    assert server.runtime.streams[0].heard[-1].size == 100
    assert events[-1]["audio_seconds"] == pytest.approx(600 / 16000)


async def test_the_gate_holds_for_audio_that_is_sent_too(house, read, speech):
    server = await house()
    socket = await server.connect({"partials": False})
    await socket.send_bytes(speech(1000))
    await socket.send_json({"type": "gate", "open": False})
    await socket.send_bytes(speech(500))
    await socket.send_json({"type": "gate", "open": True})
    await socket.send_bytes(speech(30))
    await socket.send_json({"type": "stop"})
    events, _ = await read.rest(socket)
    assert texts(events) == ["1030"]
    assert events[-1]["audio_seconds"] == pytest.approx(1530 / 16000)


@pytest.mark.parametrize(
    ("gate", "said"),
    [({}, "bad_field"), ({"open": 1}, "bad_field"), ({"open": True, "why": "x"}, "bad_field"),
     ({"open": True, "for": "x"}, "unknown_field")],
)  # fmt: skip
async def test_a_gate_that_is_none(house, read, gate, said):
    server = await house()
    socket = await server.connect({})
    await socket.send_json({"type": "gate", **gate})
    events, code = await read.rest(socket)
    assert (events[-1]["code"], code) == (said, 1007)

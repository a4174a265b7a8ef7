"""The native protocol over real sockets, with a stand-in for the model."""

from __future__ import annotations

import asyncio
import socket as sockets
import struct
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.errors import DeviceError, ServerFull
from edge_runtime.server import Limits

OPEN = Path("/proc/self/fd")
HELLO = (
    b"GET /v1/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
QUICK = Limits(hello=0.3, linger=0.5, grace=2.0)


def kinds(events):
    return [event["type"] for event in events]


def texts(events):
    return [event["text"] for event in events if event["type"] == "final"]


async def test_events_come_in_order_and_are_numbered_from_one(house, read, speech):
    server = await house()
    socket = await server.connect({})
    await socket.send_bytes(bytes(3200))
    await socket.send_bytes(speech(1600))
    await socket.send_json({"type": "flush"})
    first = await read.until(socket, "flushed")
    await socket.send_bytes(speech(800))
    await socket.send_json({"type": "stop"})
    last, code = await read.rest(socket)
    assert kinds(first) == ["ready", "speech_start", "partial", "final", "speech_end", "flushed"]
    assert kinds(last) == ["speech_start", "partial", "final", "speech_end", "closed"]
    assert [event["seq"] for event in first + last] == list(range(1, 12))
    assert texts(first + last) == ["1600", "800"]
    assert last[-1] == {
        "type": "closed",
        "seq": 11,
        "reason": "stop",
        "audio_seconds": 4000 / 16000,
    }
    assert code == 1000


async def test_ready_tells_what_serves(house, read):
    server = await house()
    socket = await server.connect({"sample_rate": 48000})
    (ready,) = await read.until(socket, "ready")
    assert ready.pop("session")
    assert len(ready.pop("resume")) >= 20
    assert ready == {
        "type": "ready",
        "seq": 1,
        "next_sample": 0,
        "model": "stand-in",
        "device": "paper",
        "sample_rate": 48000,
    }


async def test_the_fields_of_start_reach_the_stream(house, read):
    server = await house()
    socket = await server.connect({"partials": False, "words": True, "endpoint_ms": 700})
    await read.until(socket, "ready")
    options = server.runtime.streams[0].options
    assert (options.partials, options.words, options.endpoint_ms) == (False, True, 700)


@pytest.mark.parametrize(
    ("first", "code", "close", "said"),
    [
        (b"\0\0", "start_first", 1008, '{"type":"start"}'),
        ('{"type":"flush"}', "start_first", 1008, '{"type":"start"}'),
        ('{"type":"start","partails":true}', "unknown_field", 1007, "partials"),
        ('{"type":"start","resume":{"tokn":""}}', "unknown_field", 1007, "token"),
        ('{"type":"start"', "bad_json", 1007, "JSON"),
        ('{"type":"begin"}', "unknown_type", 1007, "start, flush, gate, stop"),
        ("{}", "unknown_type", 1007, "start, flush, gate, stop"),
        ("[]", "bad_field", 1007, "type"),
        ('{"type":"start","words":1}', "bad_field", 1007, "type"),
        ('{"type":"start","encoding":"opus"}', "unsupported_encoding", 1003, "pcm_s16le"),
        ('{"type":"start","sample_rate":16001}', "unsupported_audio", 1003, "16000"),
        ('{"type":"start","channels":9}', "unsupported_audio", 1003, "1 to 8"),
        ('{"type":"start","channels":0}', "unsupported_audio", 1003, "1 to 8"),
        ('{"type":"start","endpoint_ms":199}', "bad_endpoint", 1008, "200 to 10000"),
        ('{"type":"start","endpoint_ms":10001}', "bad_endpoint", 1008, "200 to 10000"),
        ('{"type":"start","source":"file:/etc/passwd"}', "bad_source", 1008, "mic:NAME"),
        ('{"type":"start","resume":{"token":"x"}}', "resume_gone", 1008, "new session"),
    ],
)
async def test_a_wrong_first_message_is_refused_with_its_fix(house, read, first, code, close, said):
    server = await house()
    socket = await server.connect()
    await (socket.send_bytes(first) if isinstance(first, bytes) else socket.send_str(first))
    (error,), closed = await read.rest(socket)
    assert (error["type"], error["seq"], error["code"]) == ("error", 1, code)
    assert said in error["fix"]
    assert error["message"]
    assert closed == close
    assert server.runtime.streams == []
    assert server.metrics.value("edge_runtime_refused_total", code=code) == 1


async def test_text_that_is_not_utf8_is_answered(house, read):
    server = await house()
    socket = await server.connect()
    await socket.send_frame(b"\xff\xfe", 1)
    (error,), closed = await read.rest(socket)
    assert (error["code"], closed) == ("bad_json", 1007)


async def test_a_client_that_says_nothing_is_told_how_to_begin(house, read):
    server = await house(limits=QUICK)
    socket = await server.connect()
    (error,), closed = await read.rest(socket)
    assert (error["code"], closed) == ("start_first", 1008)


@pytest.mark.parametrize(
    ("message", "code", "close"),
    [
        ('{"type":"stpo"}', "unknown_type", 1007),
        ('{"type":"flush","now":true}', "unknown_field", 1007),
        ("hello", "bad_json", 1007),
        ('{"type":"start"}', "already_started", 1008),
        (b"\1" * 10_000_000, "too_big", 1009),
        ("[" * 10_000_000, "too_big", 1009),
    ],
)
async def test_nothing_said_before_a_wrong_message_is_lost(
    house, read, speech, message, code, close
):
    server = await house()
    socket = await server.connect({})
    await socket.send_bytes(speech(1600))
    await (socket.send_bytes(message) if isinstance(message, bytes) else socket.send_str(message))
    events, closed = await read.rest(socket)
    assert texts(events) == ["1600"]
    assert kinds(events)[-3:] == ["final", "speech_end", "error"]
    assert (events[-1]["code"], closed) == (code, close)
    assert events[-1]["fix"]
    assert "closed" not in kinds(events)


async def test_a_message_of_the_very_limit_is_taken(house, read, speech):
    server = await house(serving={"max_message_bytes": 4096})
    socket = await server.connect({"partials": False})
    await socket.send_bytes(speech(2048))
    await socket.send_bytes(speech(2049))
    events, closed = await read.rest(socket)
    assert texts(events) == ["2048"]
    assert (events[-1]["code"], closed) == ("too_big", 1009)


async def test_an_odd_number_of_bytes_is_warned_of_at_the_end(house, read, speech):
    server = await house()
    socket = await server.connect({})
    await socket.send_bytes(speech(100) + b"\7")
    await socket.send_json({"type": "stop"})
    events, closed = await read.rest(socket)
    warnings = [event for event in events if event["type"] == "warning"]
    assert [event["code"] for event in warnings] == ["odd_bytes"]
    assert texts(events) == ["100"]
    assert closed == 1000


async def test_samples_may_be_cut_anywhere_between_messages(house, read, speech):
    server = await house()
    socket = await server.connect({"channels": 2, "partials": False})
    sound = speech(2 * 900)
    for first in range(0, len(sound), 7):
        await socket.send_bytes(sound[first : first + 7])
    await socket.send_json({"type": "stop"})
    events, _ = await read.rest(socket)
    assert texts(events) == ["900"]
    assert "warning" not in kinds(events)


async def test_floats_that_are_not_finite_are_warned_of_once(house, read):
    server = await house()
    socket = await server.connect({"encoding": "pcm_f32le", "partials": False})
    sound = np.array([0.5, np.nan, 3.0, -0.5], "<f4").tobytes()
    await socket.send_bytes(sound)
    await socket.send_bytes(sound)
    await socket.send_json({"type": "stop"})
    events, _ = await read.rest(socket)
    assert [event["code"] for event in events if event["type"] == "warning"] == ["odd_samples"]
    assert texts(events) == ["6"]


async def test_a_fast_sender_is_held_back_and_loses_nothing(house, read, speech):
    server = await house(pace=0.005)  # 200 times real time, no more
    socket = await server.connect({"partials": False})
    sent = 0

    async def send():
        nonlocal sent
        for _ in range(1200):
            await socket.send_bytes(speech(3200))
            sent += 3200
        await socket.send_json({"type": "stop"})

    sending = asyncio.create_task(send())
    await asyncio.sleep(0.3)
    heard = sum(map(len, server.runtime.streams[0].heard))
    # what is in flight lies in the kernel's and the libraries' buffers, all of them bounded
    assert sent - heard < 3_000_000
    assert sent < 1200 * 3200
    events, closed = await read.rest(socket, 30)
    await sending
    assert texts(events) == [str(1200 * 3200)]
    assert closed == 1000


async def test_a_client_that_vanishes_is_finalised_at_once(house, read, speech):
    server = await house()
    socket = await server.connect({})
    await socket.send_bytes(speech(1600))
    await read.until(socket, "partial")
    assert server.metrics.value("edge_runtime_sessions_open") == 1
    socket._response.connection.transport.abort()
    for _ in range(100):
        await asyncio.sleep(0.02)
        if not server.metrics.value("edge_runtime_sessions_open"):
            break
    assert server.metrics.value("edge_runtime_sessions_total", reason="vanished") == 1
    assert server.metrics.value("edge_runtime_finals_total", reason="stop") == 1
    assert len(server.state.parking) == 0


async def test_an_idle_client_is_finalised_and_told(house, read, speech):
    server = await house(serving={"idle_seconds": 1})
    socket = await server.connect({})
    await socket.send_bytes(speech(1600))
    events, closed = await read.rest(socket)
    assert texts(events) == ["1600"]
    assert (events[-1]["type"], events[-1]["reason"], closed) == ("closed", "idle", 1000)


@pytest.mark.parametrize("where", ["server", "runtime"])
async def test_a_full_server_says_so_before_any_audio(house, read, where):
    server = await (house(most=1) if where == "runtime" else house(serving={"max_sessions": 1}))
    first = await server.connect({})
    await read.until(first, "ready")
    second = await server.connect({})
    (error,), closed = await read.rest(second)
    assert (error["type"], error["code"], closed) == ("error", "full", 1013)


async def test_a_device_that_fails_is_reported(house, read, speech):
    server = await house()
    socket = await server.connect({})
    await read.until(socket, "ready")
    server.runtime.streams[0].failure = DeviceError("the device is gone", "Plug it in.")
    await socket.send_bytes(speech(1600))
    events, closed = await read.rest(socket)
    assert events[-1] == {
        "type": "error",
        "seq": 2,
        "code": "device",
        "message": "the device is gone",
        "fix": "Plug it in.",
    }
    assert closed == 1011
    assert server.metrics.value("edge_runtime_sessions_open") == 0


async def test_a_session_that_finds_no_memory_is_told_that_the_server_is_full(house, read, speech):
    server = await house()
    socket = await server.connect({})
    await read.until(socket, "ready")
    server.runtime.streams[0].failure = ServerFull("no memory left", "Raise memory_mb.")
    await socket.send_bytes(speech(1600))
    (error,), closed = await read.rest(socket)
    assert (error["type"], error["code"], error["fix"]) == ("error", "full", "Raise memory_mb.")
    assert closed == 1013


async def test_shutdown_finalises_sessions_and_says_so(read, speech, house):
    server = await house()
    socket = await server.connect({})
    await socket.send_bytes(speech(1600))
    await read.until(socket, "partial")
    server.state.closing = True
    ending = asyncio.create_task(server.state.parking.finish(2.0))
    events, closed = await read.rest(socket)
    await ending
    assert texts(events) == ["1600"]
    assert (events[-1]["type"], events[-1]["reason"], closed) == ("closed", "shutdown", 1001)
    late = await server.connect({})
    (error,), closed = await read.rest(late)
    assert (error["code"], closed) == ("not_ready", 1013)


async def test_a_client_that_reads_nothing_is_closed_with_the_reason(house, read, speech):
    limits = Limits(blocked=0.5, linger=2.0, grace=1.0)
    server = await house(limits=limits, padding=200_000)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(server.url.rsplit(":", 1)[1]), limit=1 << 16
    )
    writer.write(HELLO + frame(1, b'{"type":"start","partials":false}'))
    for _ in range(100):
        writer.write(frame(2, speech(160)) + frame(1, b'{"type":"flush"}'))
    await writer.drain()
    for _ in range(200):
        await asyncio.sleep(0.02)
        if server.metrics.value("edge_runtime_errors_total", code="slow_client"):
            break
    assert server.metrics.value("edge_runtime_errors_total", code="slow_client") == 1
    everything = await asyncio.wait_for(reader.read(-1), 10)
    writer.close()
    frames = list(unframed(everything.split(b"\r\n\r\n", 1)[1]))
    finals = [body for code, body in frames if code == 1 and b'"final"' in body]
    assert len(finals) >= 2
    assert all(b'"text":"160 ' in body for body in finals)
    assert b'"slow_client"' in frames[-2][1]
    assert frames[-1][0] == 8
    assert struct.unpack(">H", frames[-1][1][:2])[0] == 1008
    assert frames[-1][1][2:] == b"slow_client"


async def test_a_mountain_of_unread_events_is_bounded(house, read, speech):
    limits = Limits(waiting=50, linger=0.3, grace=1.0)
    server = await house(limits=limits, padding=200_000)
    socket = await server.connect({"partials": False})
    for _ in range(200):
        await socket.send_bytes(speech(160))
        await socket.send_json({"type": "flush"})
    for _ in range(200):
        await asyncio.sleep(0.02)
        if server.metrics.value("edge_runtime_errors_total", code="slow_client"):
            break
    assert server.metrics.value("edge_runtime_errors_total", code="slow_client") == 1
    assert server.metrics.value("edge_runtime_sessions_open") in {0, 1}


@pytest.mark.skipif(not OPEN.is_dir(), reason="counts open files in /proc")
async def test_nothing_is_kept_for_a_client_that_never_reads(house, speech):
    server = await house(limits=Limits(blocked=0.3, linger=0.2, grace=1.0), padding=200_000)
    port = int(server.url.rsplit(":", 1)[1])
    before = open_files()
    with sockets.create_connection(("127.0.0.1", port)) as client:
        client.sendall(HELLO + frame(1, b'{"type":"start","partials":false}'))
        for _ in range(100):
            client.sendall(frame(2, speech(160)) + frame(1, b'{"type":"flush"}'))
        await asyncio.sleep(0.1)
        assert open_files() == before + 2  # both ends
        for _ in range(200):
            await asyncio.sleep(0.02)
            if open_files() == before + 1:
                break
        assert open_files() == before + 1
    assert len(server.state.parking) == 0


async def test_no_microphone_is_an_error_with_its_fix(house, read):
    server = await house()
    socket = await server.connect({"source": "mic:no such microphone"})
    (error,), closed = await read.rest(socket)
    assert error["code"] in {"microphone", "missing_extra"}
    assert error["fix"]
    assert closed == 1008
    assert server.runtime.streams == []


def open_files():
    return len(list(OPEN.iterdir()))


def frame(opcode, body):
    """A masked client frame (RFC 6455 section 5.2); a mask of zeros changes nothing."""
    size = len(body)
    head = bytes([0x80 | opcode]) + (
        bytes([0x80 | size]) if size < 126 else bytes([0xFE]) + struct.pack(">H", size)
    )
    return head + bytes(4) + body


def unframed(data):
    """(opcode, body) of each whole server frame."""
    at = 0
    while at + 2 <= len(data):
        opcode, size = data[at] & 15, data[at + 1]
        at += 2
        if size == 126:
            (size,) = struct.unpack_from(">H", data, at)
            at += 2
        elif size == 127:
            (size,) = struct.unpack_from(">Q", data, at)
            at += 8
        if at + size > len(data):
            return
        yield opcode, data[at : at + size]
        at += size

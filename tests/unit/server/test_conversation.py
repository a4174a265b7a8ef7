"""A dialect on a real socket: the session is the native one, with other words for it."""

from __future__ import annotations

import asyncio
import base64
import json
import resource
import socket as sockets
from pathlib import Path

import aiohttp
import pytest

from edge_runtime import dialects
from edge_runtime.dialects.openai.realtime import Realtime
from edge_runtime.errors import PortTaken
from edge_runtime.server import Limits

APPENDED = "input_audio_buffer.append"
TRANSCRIPTION = "conversation.item.input_audio_transcription"


async def connect(server, **options):
    socket = await server.http.ws_connect(f"{server.url}/v1/realtime?model=x", **options)
    server.sockets.append(socket)
    return socket


async def append(socket, pcm):
    await socket.send_json({"type": APPENDED, "audio": base64.b64encode(pcm).decode()})


async def manual(socket, rate=16000):
    """Only commits end a turn."""
    heard = {"format": {"type": "audio/pcm", "rate": rate}, "turn_detection": None}
    session = {"type": "transcription", "audio": {"input": heard}}
    await socket.send_json({"type": "session.update", "session": session})


async def test_a_session_of_another_dialect(house, read, speech):
    server = await house()
    socket = await connect(server)
    await manual(socket)
    assert not server.runtime.streams
    await append(socket, speech(1600))
    await socket.send_json({"type": "input_audio_buffer.commit"})
    events = await read.until(socket, f"{TRANSCRIPTION}.completed")
    assert [event["type"] for event in events][:2] == ["session.created", "session.updated"]
    assert events[-1]["transcript"] == "1600"
    assert len(server.state.parking) == 1
    await socket.close()
    for _ in range(200):
        await asyncio.sleep(0.01)
        if not len(server.state.parking):
            break
    assert len(server.state.parking) == 0
    value = server.metrics.value
    assert value("edge_runtime_dialect_sessions_total", dialect="openai-realtime") == 1
    assert value("edge_runtime_dialect_audio_seconds_total", dialect="openai-realtime") == 0.1
    assert value("edge_runtime_dialect_emit_seconds_count", dialect="openai-realtime") == 1


async def test_the_subprotocol_is_agreed_on_and_the_key_in_it_is_not(house):
    server = await house()
    protocols = ("realtime", "openai-insecure-api-key.secret")
    socket = await connect(server, protocols=protocols)
    assert socket.protocol == "realtime"


@pytest.mark.parametrize("where", ["server", "runtime"])
async def test_a_full_server_says_so(house, read, speech, where):
    server = await (house(most=1) if where == "runtime" else house(serving={"max_sessions": 1}))
    await read.until(await server.connect({}), "ready")
    socket = await connect(server)
    if where == "runtime":  # which is asked with the first audio
        await append(socket, speech(16))
    events, code = await read.rest(socket)
    assert events[-1]["error"]["code"] == "full"
    assert code == 1013


async def test_a_client_that_never_begins_is_closed(house, read):
    server = await house(serving={"idle_seconds": 1}, limits=Limits(linger=0.3))
    socket = await connect(server)
    events, code = await read.rest(socket)
    assert events[-1]["error"]["code"] == "start_first"
    assert "append" in events[-1]["error"]["message"]
    assert code == 1008


async def test_a_message_that_is_too_big_ends_the_session_after_its_text(house, read, speech):
    server = await house(serving={"max_message_bytes": 8192})
    socket = await connect(server)
    await append(socket, speech(2400))
    await read.until(socket, "input_audio_buffer.speech_started")
    await append(socket, speech(5000))
    events, code = await read.rest(socket)
    kinds = [event["type"] for event in events]
    assert f"{TRANSCRIPTION}.completed" in kinds
    assert kinds[-1] == "error"
    assert (events[-1]["error"]["code"], code) == ("too_big", 1009)


async def test_shutdown_gives_what_was_said(house, read, speech):
    server = await house()
    socket = await connect(server)
    await append(socket, speech(4800))
    await read.until(socket, "input_audio_buffer.speech_started")
    server.state.closing = True
    ending = asyncio.create_task(server.state.parking.finish(2.0))
    events, code = await read.rest(socket)
    await ending
    assert events[-1]["type"] == f"{TRANSCRIPTION}.completed"
    assert code == 1001


async def test_a_dialect_may_have_a_port_of_its_own(house, read, speech, monkeypatch):
    with sockets.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setattr(dialects, "ports", lambda _: {port: Realtime})
    server = await house()
    socket = await server.http.ws_connect(f"ws://127.0.0.1:{port}")
    server.sockets.append(socket)
    await manual(socket)
    await append(socket, speech(1600))
    await socket.send_json({"type": "input_audio_buffer.commit"})
    events = await read.until(socket, f"{TRANSCRIPTION}.completed")
    assert events[-1]["transcript"] == "1600"
    with pytest.raises(PortTaken):
        await house()


@pytest.fixture
def many_files():
    """Both ends of 500 connections are open files of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip(f"only {hard} files may be open at a time")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_500_idle_connections_take_little_and_no_session(house, read, speech, many_files):
    server = await house(serving={"max_sessions": 1})
    before = resident()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        idle = [await http.ws_connect(f"{server.url}/v1/realtime") for _ in range(500)]
        assert resident() - before < 100_000_000  # of both ends
        began = asyncio.get_running_loop().time()
        events = await server.say(speech(1600))
        assert asyncio.get_running_loop().time() - began < 1.0
        assert [event["text"] for event in events if event["type"] == "final"] == ["1600"]
        for socket in idle:
            await socket.close()


def resident():
    """Bytes of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def test_damaged_messages_are_answered_and_nobody_else_is_touched(house, read, speech, fuzz):
    """Texts of a good session, changed at random places."""
    server = await house()
    other = await server.connect({"partials": False})
    await other.send_bytes(speech(1600))
    good = [
        {"type": "session.update", "session": {"audio": {"input": {"turn_detection": None}}}},
        {"type": APPENDED, "audio": base64.b64encode(speech(64)).decode()},
        {"type": "input_audio_buffer.commit"},
        {"type": "input_audio_buffer.clear"},
    ]
    for number in range(fuzz.frames // 25):
        socket = await connect(server)
        for _ in range(25):
            text = fuzz.damaged(json.dumps(fuzz.chance.choice(good)).encode())
            await socket.send_frame(text, fuzz.chance.choice([1, 1, 1, 2]))
        await manual(socket)
        await append(socket, speech(160))
        await socket.send_json({"type": "input_audio_buffer.commit"})
        await read.until(socket, f"{TRANSCRIPTION}.completed", 10)
        await socket.close()
        server.sockets.clear()
        del server.runtime.streams[1:]
        if number % 100 == 10:
            fuzz.looked()
    await other.send_json({"type": "stop"})
    events, code = await read.rest(other)
    assert [event["text"] for event in events if event["type"] == "final"] == ["1600"]
    assert code == 1000

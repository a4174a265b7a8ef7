"""Clients that break the protocol, vanish or do not read, with real speech on the line."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

CLIP = "1088-134315-0002"
PARKS = {"resume": {"token": "", "last_seq": 0}}


def samples(pcm):
    return np.frombuffer(pcm, "<i2").astype(np.float32) / 32768


@pytest.mark.parametrize(
    ("message", "code", "close"),
    [
        ("not json", "bad_json", 1007),
        ('{"type":"stop","now":1}', "unknown_field", 1007),
        (bytes(10_000_000), "too_big", 1009),
    ],
)
async def test_what_was_said_before_a_wrong_message_is_written(
    house, read, clip, message, code, close
):
    """Cut in the middle of a word, the open segment is finalised with what there was."""
    server = await house()
    pcm = clip(CLIP).pcm[: 5 * 32000]
    expected = await read.directly(server.runtime, samples(pcm))
    socket = await server.connect({"partials": False})
    for first in range(0, len(pcm), 3200):
        await socket.send_bytes(pcm[first : first + 3200])
    await (socket.send_str(message) if isinstance(message, str) else socket.send_bytes(message))
    events, closed = await read.rest(socket)
    read.check(events)
    assert read.text(events) == expected
    assert len(expected.split()) > 5
    assert events[-1]["type"] == "error"
    assert (events[-1]["code"], closed) == (code, close)


async def test_an_odd_byte_costs_nothing_but_a_warning(house, read, clip):
    server = await house()
    pcm = clip(CLIP).pcm
    expected = await read.directly(server.runtime, samples(pcm))
    events = await server.say(pcm + b"\7", 9999, partials=False)
    assert [event["code"] for event in events if event["type"] == "warning"] == ["odd_bytes"]
    read.check(events)
    assert read.text(events) == expected


async def test_who_vanishes_in_a_word_is_finalised(house, read, clip):
    server = await house()
    pcm = clip(CLIP).pcm
    socket = await server.connect({})
    await socket.send_bytes(pcm[: 3 * 32000])
    await read.until(socket, "speech_start")
    socket._response.connection.transport.abort()
    for _ in range(200):
        await asyncio.sleep(0.02)
        if not server.runtime.sessions:
            break
    assert server.runtime.sessions == 0
    assert server.metrics.value("edge_runtime_finals_total", reason="stop") == 1
    assert server.metrics.value("edge_runtime_sessions_total", reason="vanished") == 1


async def test_who_vanishes_in_a_word_and_comes_back_misses_nothing(house, read, clip):
    """Whatever was in flight, the text is that of the whole clip."""
    server = await house()
    pcm = clip(CLIP).pcm
    expected = await read.directly(server.runtime, samples(pcm))
    socket = await server.connect({"partials": False, **PARKS})
    (ready,) = await read.until(socket, "ready")
    events, at = [ready], 0
    for lost_at in (2.01, 3.5, 9.99):
        for first in range(at, int(lost_at * 32000), 3001):
            await socket.send_bytes(pcm[first : first + 3001])
        await asyncio.sleep(0.3)
        while (event := await anything(socket)) is not None:
            events.append(event)
        socket._response.connection.transport.abort()
        await asyncio.sleep(0.1)
        token = {"token": ready["resume"], "last_seq": events[-1]["seq"]}
        socket = await server.connect({"resume": token})
        (again,) = await read.until(socket, "ready")
        assert again["session"] == ready["session"]
        ready = again  # each token is good once
        at = 2 * again["next_sample"]
        assert 0 < at <= len(pcm)
    for first in range(at, len(pcm), 3001):
        await socket.send_bytes(pcm[first : first + 3001])
    await socket.send_json({"type": "stop"})
    later, code = await read.rest(socket)
    read.check(events + later)
    assert code == 1000
    assert read.text(events + later) == expected


async def test_who_does_not_come_back_is_finalised_in_time(house, read, clip):
    server = await house(resume_seconds=0.5)
    socket = await server.connect(PARKS)
    await socket.send_bytes(clip(CLIP).pcm[: 3 * 32000])
    await read.until(socket, "speech_start")
    socket._response.connection.transport.abort()
    await asyncio.sleep(0.3)
    assert server.runtime.sessions == 1
    await asyncio.sleep(1.0)
    assert server.runtime.sessions == 0
    assert server.metrics.value("edge_runtime_finals_total", reason="stop") == 1


async def test_a_full_server_refuses_before_any_audio(house, read, clip):
    server = await house(max_sessions=2)
    first = [await server.connect({}) for _ in range(2)]
    for socket in first:
        await read.until(socket, "ready")
    third = await server.connect({})
    events, code = await read.rest(third)
    assert ([event["code"] for event in events], code) == (["full"], 1013)
    await first[0].send_json({"type": "stop"})
    await read.rest(first[0])
    assert read.text(await server.say(clip(CLIP).pcm, partials=False))
    await first[1].send_json({"type": "stop"})
    await read.rest(first[1])


async def test_many_sessions_one_after_another_leave_nothing_behind(house, read, clip):
    server = await house(max_sessions=1)
    pcm = clip("1089-134691-0000").pcm[: 2 * 32000]
    texts = {read.text(await server.say(pcm, partials=False)) for _ in range(10)}
    assert len(texts) == 1
    assert server.metrics.value("edge_runtime_sessions_total", reason="stop") == 10
    assert len(asyncio.all_tasks()) < 15


async def anything(socket):
    """The next event, if one is there already."""
    try:
        return await socket.receive_json(timeout=0.05)
    except asyncio.TimeoutError:
        return None

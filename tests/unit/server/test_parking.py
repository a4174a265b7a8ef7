"""Sessions whose client vanishes: parked, taken up again, or let go."""

from __future__ import annotations

import asyncio

import pytest

from edge_runtime.server import Limits

PARKS = {"resume": {"token": "", "last_seq": 0}}


def vanish(socket):
    socket._response.connection.transport.abort()


def texts(events):
    return [event["text"] for event in events if event["type"] == "final"]


async def empty(server):
    for _ in range(200):
        if not len(server.state.parking):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("a guest is still there")


async def parked(server, count=1):
    for _ in range(200):
        await asyncio.sleep(0.01)
        if server.state.parking.waiting == count:
            return
    raise AssertionError(f"{server.state.parking.waiting} parked, not {count}")


async def test_a_parked_session_goes_on_where_it_was(house, read, speech):
    server = await house()
    socket = await server.connect({**PARKS, "sample_rate": 16000})
    (ready,) = await read.until(socket, "ready")
    await socket.send_bytes(speech(1000) + b"\7")  # the byte after is sent again
    await socket.send_json({"type": "flush"})
    await read.until(socket, "flushed")
    await socket.send_bytes(b"\0" + speech(500))
    before = await read.until(socket, "partial")
    vanish(socket)
    await parked(server)
    assert server.metrics.value("edge_runtime_sessions_parked") == 1
    back = await server.connect(
        {"resume": {"token": ready["resume"], "last_seq": before[-1]["seq"]}}
    )
    (again,) = await read.until(back, "ready")
    assert again["session"] == ready["session"]
    assert again["next_sample"] == 1501
    assert again["seq"] == before[-1]["seq"]
    await back.send_bytes(speech(250))
    await back.send_json({"type": "stop"})
    events, closed = await read.rest(back)
    assert [event["seq"] for event in events] == list(
        range(again["seq"] + 1, again["seq"] + 1 + len(events))
    )
    assert texts(events) == ["751"]  # the sample cut in two, 500 before, 250 after
    assert closed == 1000
    assert server.state.parking.waiting == 0
    assert server.metrics.value("edge_runtime_sessions_parked") == 0
    await empty(server)


async def test_the_half_sample_of_a_lost_socket_is_sent_again(house, read, speech):
    server = await house()
    socket = await server.connect({**PARKS, "partials": False})
    (ready,) = await read.until(socket, "ready")
    await socket.send_bytes(speech(1000) + b"\7")
    await socket.send_json({"type": "flush"})
    events = await read.until(socket, "flushed")
    vanish(socket)
    await parked(server)
    back = await server.connect(
        {"resume": {"token": ready["resume"], "last_seq": events[-1]["seq"]}}
    )
    (again,) = await read.until(back, "ready")
    assert again["next_sample"] == 1000
    await back.send_bytes(speech(500))
    await back.send_json({"type": "stop"})
    events, _ = await read.rest(back)
    assert texts(events) == ["500"]
    assert "warning" not in [event["type"] for event in events]


async def test_events_after_the_last_seen_are_sent_again(house, read, speech):
    server = await house()
    socket = await server.connect({**PARKS, "partials": False})
    (ready,) = await read.until(socket, "ready")
    for _ in range(3):
        await socket.send_bytes(speech(100))
        await socket.send_json({"type": "flush"})
        events = await read.until(socket, "flushed")
    last = events[-1]["seq"]
    vanish(socket)
    await parked(server)
    back = await server.connect({"resume": {"token": ready["resume"], "last_seq": last - 5}})
    again = await read.until(back, "flushed")
    while again[-1]["seq"] < last:
        again += await read.until(back, "flushed")
    assert [event["seq"] for event in again] == list(range(last - 5, last + 1))
    assert again[0]["type"] == "ready"
    assert again[-4]["type"] == "speech_start" or again[-3]["type"] == "final"
    assert again[-3:] == events[-3:]


async def test_finals_that_come_while_parked_wait_for_the_client(house, read, speech):
    server = await house(pace=1.0)
    socket = await server.connect(PARKS)
    (ready,) = await read.until(socket, "ready")
    await socket.send_bytes(speech(4000))
    await socket.send_json({"type": "flush"})
    await socket.send_bytes(speech(4000))
    await asyncio.sleep(0.1)
    vanish(socket)
    await parked(server)
    await asyncio.sleep(0.6)  # everything was decoded in the meantime
    back = await server.connect({"resume": {"token": ready["resume"], "last_seq": 1}})
    await back.send_json({"type": "stop"})
    events, closed = await read.rest(back)
    assert events[0]["next_sample"] == 8000
    assert texts(events) == ["4000", "4000"]
    assert closed == 1000


async def test_the_end_of_a_session_can_be_fetched_again(house, read, speech):
    server = await house()
    socket = await server.connect({**PARKS, "partials": False})
    (ready,) = await read.until(socket, "ready")
    await socket.send_bytes(speech(100))
    server.runtime.streams[0]._pace = 0.0
    await socket.send_json({"type": "stop"})
    vanish(socket)
    await parked(server)
    back = await server.connect({"resume": {"token": ready["resume"], "last_seq": 1}})
    events, closed = await read.rest(back)
    assert events[-1]["type"] == "closed"
    assert closed == 1000


async def test_a_second_socket_takes_the_session_from_the_first(house, read, speech):
    server = await house(pace=0.05)
    socket = await server.connect({**PARKS, "partials": False})
    (ready,) = await read.until(socket, "ready")
    for _ in range(5):
        await socket.send_bytes(speech(32000))
    await asyncio.sleep(0.12)  # and now one of them is half in
    back = await server.connect({"resume": {"token": ready["resume"], "last_seq": 1}})
    (again,) = await read.until(back, "ready")
    assert again["next_sample"] in {32000, 64000, 96000}
    await back.send_bytes(speech(5 * 32000 - again["next_sample"]))
    await back.send_json({"type": "stop"})
    events, closed = await read.rest(back)
    assert texts(events) == [str(5 * 32000)]
    assert closed == 1000
    _, first = await read.rest(socket)
    assert first in {1001, 1006}


async def test_no_event_is_lost_between_the_two_sockets(house, read, speech):
    server = await house(pace=0.02)
    socket = await server.connect(PARKS)
    (ready,) = await read.until(socket, "ready")
    last = 1
    for turn in range(10):
        for _ in range(20):
            await socket.send_bytes(speech(160))
            await socket.send_json({"type": "flush"})
        events = await read.until(socket, "flushed")
        assert [event["seq"] for event in events] == list(
            range(last + 1, last + 1 + len(events))
        ), turn
        last = events[-1]["seq"]
        socket = await server.connect({"resume": {"token": ready["resume"], "last_seq": last}})
        (ready,) = await read.until(socket, "ready")
        assert ready["seq"] == last
    await socket.send_json({"type": "stop"})
    events, _ = await read.rest(socket)
    assert [event["seq"] for event in events] == list(range(last + 1, last + 1 + len(events)))


async def test_two_sockets_at_once_ask_for_the_session(house, read, speech):
    server = await house(pace=0.05)
    socket = await server.connect({**PARKS, "partials": False})
    (ready,) = await read.until(socket, "ready")
    await socket.send_bytes(speech(16000))
    again = [
        await server.connect({"resume": {"token": ready["resume"], "last_seq": last}})
        for last in (99, 1, 1)
    ]
    await again[2].send_json({"type": "stop"})
    ends = [await read.rest(socket) for socket in again]
    assert [code for _, code in ends] == [1008, 1001, 1000]
    assert texts(ends[2][0]) == ["16000"]


async def test_a_token_is_good_once(house, read, speech):
    server = await house()
    socket = await server.connect(PARKS)
    (first,) = await read.until(socket, "ready")
    lost = await server.connect({"resume": {"token": first["resume"], "last_seq": 1}})
    await read.until(lost, "ready")
    # It may have been lost before it was read, with the token in it.
    back = await server.connect({"resume": {"token": first["resume"], "last_seq": 1}})
    (second,) = await read.until(back, "ready")
    assert second["session"] == first["session"]
    assert second["resume"] != first["resume"]
    await back.send_bytes(speech(16000))
    await back.send_json({"type": "flush"})
    events = await read.until(back, "flushed")
    gone = await server.connect({"resume": {"token": first["resume"], "last_seq": 1}})
    refused, code = await read.rest(gone)
    assert (refused[-1]["code"], code) == ("resume_gone", 1008)
    again = {"resume": {"token": second["resume"], "last_seq": events[-1]["seq"]}}
    socket = await server.connect(again)
    await read.until(socket, "ready")
    await socket.send_json({"type": "stop"})
    assert (await read.rest(socket))[1] == 1000


async def test_nobody_comes_back(house, read, speech):
    server = await house(serving={"resume_seconds": 0.3})
    socket = await server.connect(PARKS)
    (ready,) = await read.until(socket, "ready")
    await socket.send_bytes(speech(100))
    await read.until(socket, "partial")
    vanish(socket)
    await parked(server)
    await asyncio.sleep(0.6)
    assert server.metrics.value("edge_runtime_sessions_total", reason="vanished") == 1
    assert server.metrics.value("edge_runtime_sessions_parked") == 0
    assert len(server.state.parking) == 0
    late = await server.connect({"resume": {"token": ready["resume"], "last_seq": 1}})
    (error,), closed = await read.rest(late)
    assert (error["code"], closed) == ("resume_gone", 1008)


async def test_who_did_not_ask_is_not_parked(house, read):
    server = await house()
    socket = await server.connect({})
    (ready,) = await read.until(socket, "ready")
    late = await server.connect({"resume": {"token": ready["resume"], "last_seq": 1}})
    (error,), closed = await read.rest(late)
    assert (error["code"], closed) == ("resume_gone", 1008)
    await socket.send_json({"type": "stop"})  # and the first socket goes on
    events, closed = await read.rest(socket)
    assert (events[-1]["type"], closed) == ("closed", 1000)


@pytest.mark.parametrize("last_seq", [-1, 3, 100])
async def test_events_that_are_not_kept_cannot_be_had(house, read, speech, last_seq):
    server = await house(limits=Limits(kept=5, linger=0.5, grace=1.0))
    socket = await server.connect({**PARKS, "partials": False})
    (ready,) = await read.until(socket, "ready")
    for _ in range(3):
        await socket.send_bytes(speech(100))
        await socket.send_json({"type": "flush"})
        events = await read.until(socket, "flushed")
    assert events[-1]["seq"] == 13
    vanish(socket)
    await parked(server)
    back = await server.connect({"resume": {"token": ready["resume"], "last_seq": last_seq}})
    (error,), closed = await read.rest(back)
    assert (error["code"], closed) == ("resume_gone", 1008)
    await parked(server)  # it still waits for a client that knows better
    back = await server.connect({"resume": {"token": ready["resume"], "last_seq": 8}})
    assert (await read.until(back, "flushed"))[0]["seq"] == 8


async def test_another_kind_of_audio_cannot_go_on(house, read):
    server = await house()
    socket = await server.connect({**PARKS, "sample_rate": 8000})
    (ready,) = await read.until(socket, "ready")
    vanish(socket)
    await parked(server)
    resume = {"token": ready["resume"], "last_seq": 1}
    wrong = await server.connect({"sample_rate": 48000, "resume": resume})
    (error,), closed = await read.rest(wrong)
    assert (error["code"], closed) == ("resume_mismatch", 1008)
    await parked(server)
    right = await server.connect({"sample_rate": 8000, "resume": resume})
    (again,) = await read.until(right, "ready")
    assert again["sample_rate"] == 8000


async def test_parked_sessions_are_finalised_at_shutdown(house, read, speech):
    server = await house()
    socket = await server.connect(PARKS)
    await read.until(socket, "ready")
    await socket.send_bytes(speech(100))
    await read.until(socket, "partial")
    vanish(socket)
    await parked(server)
    await server.state.parking.finish(2.0)
    assert server.metrics.value("edge_runtime_sessions_total", reason="shutdown") == 1
    assert server.metrics.value("edge_runtime_finals_total", reason="stop") == 1
    assert server.metrics.value("edge_runtime_sessions_parked") == 0

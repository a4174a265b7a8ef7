"""Wyoming on real sockets: sessions one after another, hostile clients, who is let in."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket as sockets
import time

import pytest

from edge_runtime.config import Dialects
from edge_runtime.dialects.wyoming.asr import Wyoming
from edge_runtime.errors import ConfigError, PortTaken
from edge_runtime.server import Limits, guard, tcp
from edge_runtime.server.keys import Keys

FORMAT = {"rate": 16000, "width": 2, "channels": 1}


def message(kind, data=None, payload=b""):
    values = json.dumps(data).encode() if data else b""
    header = {"type": kind, "data_length": len(values), "payload_length": len(payload)}
    return json.dumps(header).encode() + b"\n" + values + payload


def utterance(pcm, **form):
    form = {**FORMAT, **form}
    return (
        message("transcribe", {"language": "en"}) + message("audio-start", form)
        + message("audio-chunk", form, pcm) + message("audio-stop")
    )  # fmt: skip


class Client:
    """One end of a connection, byte by byte."""

    def __init__(self, reader, writer, there):
        self.reader, self.writer, self._there = reader, writer, there

    def close(self):
        self.writer.close()
        self._there.discard(self)

    async def say(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def next(self, seconds=10.0):
        """Type and values of the next event, None at the end."""
        line = await asyncio.wait_for(self.reader.readline(), seconds)
        if not line:
            return None
        header = json.loads(line)
        data = await self.reader.readexactly(header.get("data_length", 0))
        return header["type"], json.loads(data) if data else {}

    async def until(self, kind):
        events = [await self.next()]
        while events[-1][0] != kind:
            events.append(await self.next())
        return events

    async def rest(self):
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events


@pytest.fixture
def port():
    with sockets.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.fixture
async def call(port):
    """`await call()`: another connection."""
    there = set()

    async def connect():
        client = Client(*await asyncio.open_connection("127.0.0.1", port), there)
        there.add(client)
        return client

    yield connect
    for client in list(there):
        client.close()


@pytest.fixture
def listening(house, port):
    """`await listening(…)`: a server as `house` has it, with this port."""

    async def start(dialects=None, **options):
        return await house(dialects={"wyoming_port": port, **(dialects or {})}, **options)

    return start


async def empty(server):
    for _ in range(200):
        if not len(server.state.parking):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("a session was left open")


async def heard(server):
    for _ in range(200):
        if server.runtime.streams and server.runtime.streams[0].heard:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("nothing was heard")


async def flood(client):
    while True:
        await asyncio.wait_for(client.say(message("ping", {"text": "x" * 50_000})), 5)


async def test_sessions_one_after_another_each_of_its_format(listening, call, speech):
    server = await listening()
    client = await call()
    await client.say(message("describe") + message("ping", {"text": "a"}))
    assert (await client.next())[0] == "info"
    assert await client.next() == ("pong", {"text": "a"})
    assert not server.runtime.streams
    await client.say(utterance(speech(1600)) + utterance(speech(1600), channels=2))
    for text in ("1600", "800"):
        events = await client.until("transcript-stop")
        assert [kind for kind, _ in events] == [
            "transcript-start", "transcript-chunk", "transcript", "transcript-stop",
        ]  # fmt: skip
        assert events[2][1] == {"text": text, "language": "en"}
    await empty(server)
    value = server.metrics.value
    assert value("edge_runtime_dialect_sessions_total", dialect="wyoming") == 2
    assert value("edge_runtime_dialect_audio_seconds_total", dialect="wyoming") == pytest.approx(
        0.15
    )
    assert value("edge_runtime_dialect_emit_seconds_count", dialect="wyoming") == 2
    assert value("edge_runtime_sessions_total", reason="stop") == 2


async def test_no_speech_is_an_empty_transcript(listening, call):
    await listening()
    client = await call()
    for said in (utterance(bytes(3200)), utterance(b""), message("audio-stop")):
        await client.say(said)
        events = await client.until("transcript-stop")
        assert [data["text"] for kind, data in events if kind == "transcript"] == [""]


async def test_it_is_off_until_it_is_asked_for(house, call):
    await house()
    with pytest.raises(ConnectionError):
        await call()


async def test_a_port_that_is_taken(listening, port):
    with sockets.create_server(("127.0.0.1", port)), pytest.raises(PortTaken):
        await listening()


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"GET / HTTP/1.1\r\n", "bad_json"),
        (b'{"type":"audio-chunk","payload_length":999999999999}\n', "too_big"),
        (b'{"type":"audio-chunk","data_length":999999999999}\n', "too_big"),
        (b"x" * 200_000, "too_big"),
        (message("audio-start", {**FORMAT, "rate": 12345}), "unsupported_audio"),
        (message("audio-start", {**FORMAT, "channels": 9}), "unsupported_audio"),
    ],
)
async def test_what_is_wrong_is_told_before_the_end(listening, call, sent, code):
    server = await listening()
    client = await call()
    await client.say(sent)
    ((kind, data),) = await client.rest()
    assert (kind, data["code"]) == ("error", code)
    assert server.metrics.value("edge_runtime_dialect_refused_total", dialect="wyoming", code=code)
    client.close()
    await empty(server)


async def test_an_error_within_an_utterance_comes_after_its_text(listening, call, speech):
    await listening(serving={"max_message_bytes": 8192})
    client = await call()
    start = message("audio-start", FORMAT) + message("audio-chunk", FORMAT, speech(1600))
    await client.say(start + message("audio-chunk", FORMAT, speech(5000)))
    events = await client.rest()
    assert events[1:] == [
        ("transcript-chunk", {"text": "1600"}),
        ("error", {"code": "too_big", "text": events[-1][1]["text"]}),
    ]


@pytest.mark.parametrize("cut", [5, 70, 140])
async def test_a_message_that_is_cut_short_leaves_nothing(listening, call, speech, cut):
    server = await listening()
    client = await call()
    whole = message("audio-start", FORMAT) + message("audio-chunk", FORMAT, speech(160))
    await client.say(whole[: len(whole) - cut] if cut > 5 else whole[:cut])
    client.writer.write_eof()
    assert await client.rest() == []
    await empty(server)


async def test_a_client_that_vanishes_leaves_nothing(listening, call, speech):
    server = await listening()
    client = await call()
    await client.say(message("audio-start", FORMAT) + message("audio-chunk", FORMAT, speech(1600)))
    await heard(server)
    client.writer.transport.abort()
    await empty(server)
    assert server.metrics.value("edge_runtime_sessions_total", reason="vanished") == 1


async def test_a_client_that_only_half_closes_gets_its_transcript(listening, call, speech):
    await listening()
    client = await call()
    await client.say(utterance(speech(160)))
    client.writer.write_eof()
    assert [kind for kind, _ in await client.rest()][-2:] == ["transcript", "transcript-stop"]


async def test_patience_ends(listening, call, speech):
    """A first line, and the rest of a message, must come in time; then silence is the end."""
    await listening(serving={"idle_seconds": 1.0}, limits=Limits(hello=0.2, linger=0.2, grace=1.0))
    silent, dripping, between, within = [await call() for _ in range(4)]
    await dripping.say(b'{"type":"des')
    await between.say(utterance(speech(160)))
    await within.say(
        message("audio-start", FORMAT) + b'{"type":"audio-chunk","payload_length":8}\n'
    )
    began = time.monotonic()
    for each in (silent, dripping):
        ((kind, data),) = await each.rest()
        assert (kind, data["code"]) == ("error", "start_first")
    assert time.monotonic() - began < 1.0
    assert [kind for kind, _ in await between.rest()][-1] == "transcript-stop"
    assert [data.get("code") for _, data in await within.rest()] == ["idle"]


@pytest.mark.parametrize("inside", [False, True])
async def test_a_client_that_does_not_read_is_closed(listening, call, inside):
    server = await listening(limits=Limits(blocked=0.2, linger=0.2))
    client = await call()
    client.writer.transport.pause_reading()
    began = time.monotonic()
    if inside:
        await client.say(message("audio-start", FORMAT))
    with pytest.raises(ConnectionError):
        await flood(client)
    assert time.monotonic() - began < 5
    await empty(server)
    assert server.metrics.value("edge_runtime_errors_total", code="slow_client") == 1


async def test_a_full_server_still_says_what_it_is(listening, call, read, speech):
    server = await listening(serving={"max_sessions": 1})
    await read.until(await server.connect({}), "ready")
    client = await call()
    await client.say(message("describe"))
    assert (await client.next())[0] == "info"
    await client.say(message("audio-start", FORMAT))
    ((kind, data),) = await client.rest()
    assert (kind, data["code"]) == ("error", "full")


async def test_shutdown_tells_what_was_said_but_as_no_transcript(listening, call, speech):
    server = await listening()
    client, idle = await call(), await call()
    await client.say(message("audio-start", FORMAT) + message("audio-chunk", FORMAT, speech(1600)))
    await heard(server)
    server.state.closing = True
    ending = asyncio.create_task(server.state.parking.finish(2.0))
    events = await client.rest()
    await ending
    assert [kind for kind, _ in events] == ["transcript-start", "transcript-chunk", "error"]
    assert events[-1][1]["code"] == "shutdown"
    await idle.say(utterance(speech(16)))
    assert (await idle.rest())[0][1]["code"] == "not_ready"


@pytest.fixture
def from_afar(monkeypatch):
    """Clients count as other machines."""
    monkeypatch.setattr(guard, "is_local", lambda host: False)


async def refused(client):
    ((kind, data),) = await client.rest()
    assert kind == "error"
    return data["code"]


async def test_who_is_let_in_where_keys_are_needed(listening, call, tmp_path, monkeypatch, caplog):
    Keys(tmp_path / "keys.json").add("phone")
    server = await listening()
    client = await call()  # this machine
    await client.say(message("describe"))
    assert (await client.next())[0] == "info"
    monkeypatch.setattr(guard, "is_local", lambda host: False)
    assert await refused(await call()) == "key_missing"
    value = server.metrics.value
    assert value("edge_runtime_dialect_refused_total", dialect="wyoming", code="key_missing") == 1


async def test_machines_that_are_listed_need_no_key(listening, call, tmp_path, monkeypatch):
    Keys(tmp_path / "keys.json").add("phone")
    await listening(
        dialects={"wyoming_clients": "10.0.0.7, 127.0.0.0/8"},
        admitting={"sessions_per_address": 1},
    )
    monkeypatch.setattr(guard, "is_local", lambda host: False)
    client = await call()
    await client.say(message("describe"))
    assert (await client.next())[0] == "info"
    assert await refused(await call()) == "too_many_sessions"


@pytest.mark.parametrize(
    ("keys", "clients", "where"),
    [("always", "", "127.0.0.1"), ("always", "10.0.0.0/8", "0.0.0.0"), ("never", "", "0.0.0.0")],
)
async def test_the_port_is_public_only_where_somebody_may_come_in(
    listening, monkeypatch, keys, clients, where, caplog
):
    seen = []
    listen = tcp.listen
    monkeypatch.setattr(tcp, "listen", lambda host, port: seen.append(host) or listen(host, port))
    await listening(
        serving={"host": "0.0.0.0"},
        admitting={"keys": keys},
        dialects={"wyoming_clients": clients, "wyoming_announce": False},
    )
    assert seen == [where]
    assert ("wyoming_clients" in caplog.text) == (where == "127.0.0.1")


@pytest.mark.parametrize("clients", ["here", "10.0.0.0/99", "10.0.0.1;10.0.0.2"])
def test_clients_that_are_no_addresses(clients):
    with pytest.raises(ConfigError, match="wyoming_clients"):
        Dialects(wyoming_clients=clients)


@pytest.fixture
def seen(monkeypatch):
    """Counts the lines that the server looks at: nothing after damage is a message."""
    count = [0]
    following = Wyoming.following

    def counted(line):
        count[0] += 1
        return following(line)

    monkeypatch.setattr(Wyoming, "following", staticmethod(counted))
    return count


async def test_damaged_messages_are_answered_and_nobody_else_is_touched(
    listening, call, read, speech, fuzz, seen
):
    """Bytes of a good conversation, changed at random places: lengths, lines, JSON, audio."""
    server = await listening()
    other = await server.connect({"partials": False})
    await other.send_bytes(speech(1600))
    good = [
        message("describe"), message("ping", {"text": "a"}), message("transcribe", {"name": "x"}),
        message("audio-start", FORMAT), message("audio-chunk", FORMAT, speech(64)),
        message("audio-chunk", FORMAT, speech(8)), message("audio-stop"),
    ]  # fmt: skip
    rounds = 0
    while seen[0] < fuzz.frames:
        client = await call()
        with contextlib.suppress(ConnectionError):  # closed at the first that is no message
            await client.say(b"".join(fuzz.damaged(fuzz.chance.choice(good)) for _ in range(25)))
            client.writer.write_eof()
            kinds = {kind for kind, _ in await client.rest()}
            assert kinds <= {
                "info", "pong", "error", "transcript", "transcript-start", "transcript-chunk",
                "transcript-stop",
            }  # fmt: skip
        client.close()
        del server.runtime.streams[1:]
        rounds += 1
        if rounds % 100 == 10:
            fuzz.looked()
    client = await call()
    await client.say(utterance(speech(160)))
    assert (await client.until("transcript"))[-1][1]["text"] == "160"
    await other.send_json({"type": "stop"})
    events, code = await read.rest(other)
    assert [event["text"] for event in events if event["type"] == "final"] == ["1600"]
    assert code == 1000

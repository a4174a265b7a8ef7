"""Deepgram's `/v1/listen` on real sockets, with a stand-in for the model."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections import Counter

import aiohttp
import httpx
import numpy as np
import pytest
import soundfile
from deepgram import AsyncDeepgramClient, DeepgramClientEnvironment
from deepgram.core.api_error import ApiError

from edge_runtime.dialects.deepgram.listen import Listen
from edge_runtime.server.keys import Keys

# said by `deepgram-sdk` as it loads its clients
pytestmark = pytest.mark.filterwarnings("ignore:websockets:DeprecationWarning")

PATH = "/v1/listen"
RAW = "model=nova-3&encoding=linear16&sample_rate=16000"


def file(samples=1600, kind="WAV"):
    """So many samples that all count as speech."""
    made = io.BytesIO()
    soundfile.write(made, np.full(samples, 0.25, np.float32), 16000, format=kind)
    return made.getvalue()


async def connect(server, query=RAW, **options):
    socket = await server.http.ws_connect(f"{server.url}{PATH}?{query}", **options)
    server.sockets.append(socket)
    return socket


async def post(server, data, query="model=nova-3", **options):
    options.setdefault("headers", {"Content-Type": "application/octet-stream"})
    async with server.http.post(f"{server.url}{PATH}?{query}", data=data, **options) as answer:
        return answer.status, await answer.json()


def transcripts(events):
    return [
        event["channel"]["alternatives"][0]["transcript"]
        for event in events
        if event["type"] == "Results" and event["is_final"]
    ]


async def test_a_live_session(house, read, speech):
    server = await house()
    socket = await connect(server, f"{RAW}&interim_results=true&vad_events=true&endpointing=10")
    await socket.send_bytes(speech(1600))
    await read.until(socket, "SpeechStarted")
    await socket.send_json({"type": "Finalize"})
    await socket.send_json({"type": "KeepAlive"})
    events = []
    while not events or not events[-1]["from_finalize"]:
        events += await read.until(socket, "Results")
    await socket.send_json({"type": "Finalize"})  # with nothing to write down
    events += await read.until(socket, "Results")
    await socket.send_bytes(speech(800))
    await socket.send_json({"type": "CloseStream"})
    rest, code = await read.rest(socket)
    events += rest
    assert transcripts(events) == ["1600", "", "800"]
    assert sum(event["type"] == "Results" and event["from_finalize"] for event in events) == 2
    assert (events[-1]["type"], events[-1]["duration"], code) == ("Metadata", 0.15, 1000)
    (stream,) = server.runtime.streams
    assert (stream.options.partials, stream.options.words) == (True, True)
    assert stream.options.endpoint_ms == 300
    value = server.metrics.value
    assert value("edge_runtime_dialect_sessions_total", dialect="deepgram") == 1
    assert value("edge_runtime_dialect_emit_seconds_count", dialect="deepgram") == 2


async def test_a_wav_file_that_is_streamed(house, read):
    server = await house()
    socket = await connect(server, "model=nova-3")
    assert not server.runtime.streams
    data = file(2000)
    for at in range(0, len(data), 333):
        await socket.send_bytes(data[at : at + 333])
    await socket.send_bytes(b"")  # as clients of old close
    events, code = await read.rest(socket)
    assert transcripts(events) == ["2000"]
    assert (events[-1]["type"], code) == ("Metadata", 1000)


async def test_what_is_no_wav_file_ends_the_session(house, read):
    server = await house()
    socket = await connect(server, "model=nova-3")
    await socket.send_bytes(b"\x1aE\xdf\xa3 and so on")
    message = await socket.receive()
    assert json.loads(message.data)["variant"] == "DATA-0000"
    message = await socket.receive()
    assert (message.data, message.extra) == (1008, "DATA-0000")


async def test_a_stream_that_never_began_is_closed_in_order(house, read):
    server = await house()
    socket = await connect(server, "model=nova-3")
    await socket.send_json({"type": "CloseStream"})
    events, code = await read.rest(socket)
    assert [event["type"] for event in events] == ["Metadata"]
    assert (events[0]["duration"], code) == (0.0, 1000)


@pytest.mark.parametrize("query", [RAW, "model=nova-3"])
async def test_a_client_that_says_nothing_is_closed_as_deepgram_does(
    house, speech, query, monkeypatch
):
    monkeypatch.setattr(Listen, "silence", 0.3)
    server = await house()
    socket = await connect(server, query)
    for _ in range(4):
        await asyncio.sleep(0.1)
        await socket.send_json({"type": "KeepAlive"})
    if query == RAW:
        await socket.send_bytes(speech(800))
    said = [await socket.receive() for _ in range(3 if query == RAW else 2)]
    assert (said[-1].data, said[-1].extra) == (1011, "NET-0001")
    events = [json.loads(message.data) for message in said[:-1]]
    assert events[-1]["variant"] == "NET-0001"
    assert transcripts(events) == (["800"] if query == RAW else [])


async def test_what_is_not_taken_is_refused_before_there_is_a_socket(house):
    server = await house()
    for query in ("encoding=opus&sample_rate=48000", RAW + "&language=fr"):
        async with server.http.get(f"{server.url}{PATH}?{query}") as answer:
            assert answer.status == 400
            assert set(await answer.json()) == {"err_code", "err_msg", "request_id"}
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await connect(server, query)
        assert caught.value.status == 400


async def test_a_full_server_says_so(house, read):
    server = await house(serving={"max_sessions": 1})
    await read.until(await server.connect({}), "ready")
    socket = await connect(server)
    message = await socket.receive()
    assert json.loads(message.data)["variant"] == "full"
    assert (await socket.receive()).data == 1013
    status, said = await post(server, file())
    assert (status, said["err_code"]) == (503, "full")


@pytest.mark.parametrize("kind", ["WAV", "FLAC"])
async def test_a_recording_gets_its_text(house, kind):
    server = await house()
    status, said = await post(server, file(1600, kind), "utterances=true")
    assert status == 200
    assert said["results"]["channels"][0]["alternatives"][0]["transcript"] == "1600"
    assert said["results"]["utterances"][0]["transcript"] == "1600"
    assert (said["metadata"]["duration"], len(said["metadata"]["sha256"])) == (0.1, 64)
    options = server.runtime.streams[0].options
    assert (options.partials, options.words, options.live) == (False, True, False)


async def test_a_recording_that_cannot_be_taken(house):
    server = await house(dialects={"max_upload_bytes": 50_000})
    for data, status, code in (
        (b"", 400, "audio"),
        (b"this is no audio", 400, "audio"),
        (file(40_000), 413, "too_big"),
    ):
        got, said = await post(server, data)
        assert (got, said["err_code"]) == (status, code)
    url = {"url": "https://example.com/a.wav"}
    async with server.http.post(server.url + PATH, json=url) as answer:
        assert answer.status == 400
        assert "fetched" in (await answer.json())["err_msg"]


async def test_it_is_switched_off(house):
    server = await house(dialects={"deepgram": False})
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await connect(server)
    assert caught.value.status == 404


# -- keys, as the `deepgram-sdk` package and browsers send them


@pytest.fixture
async def keyed(house, tmp_path):
    """A server that asks for keys, and a key."""
    path = tmp_path / "keys.json"
    key = Keys(path).add("kiosk")
    return await house(admitting={"keys_file": str(path)}), key


@contextlib.asynccontextmanager
async def client(server, key):
    """The package, pointed at the server."""
    base, sockets = server.url, server.url.replace("http", "ws")
    where = DeepgramClientEnvironment(base=base, production=sockets, agent=sockets, agent_rest=base)
    async with httpx.AsyncClient() as http:
        yield AsyncDeepgramClient(api_key=key, environment=where, httpx_client=http)


def listen(made):
    return made.listen.v1.connect(model="nova-3", encoding="linear16", sample_rate=16000)


async def test_a_key_lets_in(keyed, speech):
    server, key = keyed
    async with client(server, key) as made, listen(made) as socket:
        answer = await made.listen.v1.media.transcribe_file(request=file(), model="nova-3")
        assert answer.results.channels[0].alternatives[0].transcript == "1600"
        await socket.send_media(speech(1600))
        await socket.send_finalize()
        assert (await socket.recv()).channel.alternatives[0].transcript == "1600"
        await socket.send_close_stream()
        assert (await socket.recv()).duration == 0.1


async def test_another_key_is_refused(keyed):
    server, _ = keyed
    async with client(server, "er_none") as made:
        with pytest.raises(ApiError) as caught:
            await made.listen.v1.media.transcribe_file(request=file(), model="nova-3")
        assert (caught.value.status_code, caught.value.body["err_code"]) == (401, "INVALID_AUTH")
        with pytest.raises(ApiError) as caught:
            async with listen(made):
                pass
        assert caught.value.status_code == 401


async def test_the_ways_of_a_key(keyed, read):
    server, key = keyed
    ways = [
        {"protocols": ("token", key)},
        {"headers": {"Authorization": f"Token {key}"}},
        {"headers": {"Authorization": f"Bearer {key}"}},
    ]
    for way in ways:
        socket = await connect(server, **way)
        assert socket.protocol == ("token" if "protocols" in way else None)
        await socket.send_json({"type": "CloseStream"})
        assert (await read.rest(socket))[1] == 1000
    for way in ({}, {"protocols": ("token", "er_none")}, {"headers": {"Authorization": "Token x"}}):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await connect(server, **way)
        assert caught.value.status == 401


# -- damage


async def test_damaged_messages_are_answered_and_nobody_else_is_touched(house, read, speech, fuzz):
    """Messages of good sessions, live and of a WAV file, changed at random places."""
    server = await house()
    other = await server.connect({"partials": False})
    await other.send_bytes(speech(1600))
    texts = [b'{"type":"KeepAlive"}', b'{"type":"Finalize"}', b'{"type":"Configure","keyterms":[]}']
    found = Counter()
    for number in range(fuzz.frames // 25):
        whole = number % 2
        socket = await connect(server, "model=nova-3" if whole else RAW)
        if whole:
            await socket.send_bytes(fuzz.damaged(file(100)[:60], 12))
        for _ in range(25):
            text = fuzz.damaged(fuzz.chance.choice([*texts, speech(64)]))
            # what is empty closes the stream
            await socket.send_frame(text or b"x", fuzz.chance.choice([1, 1, 2]))
        await socket.send_json({"type": "CloseStream"})
        events, code = await read.rest(socket, 10)
        assert code in {1000, 1008}, code
        assert events[-1]["type"] == ("Metadata" if code == 1000 else "Error")
        found[code, whole] += 1
        server.sockets.clear()
        del server.runtime.streams[1:]
        if number % 100 == 10:
            fuzz.looked()
    print(dict(found))  # noqa: T201
    assert {pair[0] for pair in found if not pair[1]} == {1000}
    await other.send_json({"type": "stop"})
    events, code = await read.rest(other)
    assert [event["text"] for event in events if event["type"] == "final"] == ["1600"]
    assert code == 1000


async def test_damaged_recordings_are_answered_and_cost_nobody_else(house, fuzz):
    """Bytes and queries of good requests, changed at random places."""
    server = await house()
    good = file(200, "FLAC")
    for number in range(fuzz.frames // 5):
        query = fuzz.damaged(b"utterances=true&language=en&model=x").decode("latin-1")
        status, said = await post(server, fuzz.damaged(good, 12), query)
        assert status in {200, 400}, said
        assert ("results" in said) is (status == 200)
        server.runtime.streams.clear()
        if number % 1000 == 50:
            fuzz.looked()
    status, said = await post(server, file(300))
    assert said["results"]["channels"][0]["alternatives"][0]["transcript"] == "300"

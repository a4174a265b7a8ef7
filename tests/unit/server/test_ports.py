"""Dialects on ports of their own: Vosk, sherpa-onnx and WhisperLive on real sockets."""

from __future__ import annotations

import asyncio
import itertools
import json
import socket as sockets
import struct

import aiohttp
import pytest

from edge_runtime.config import Dialects
from edge_runtime.dialects.sherpa_onnx import SherpaOnnx
from edge_runtime.dialects.vosk import Vosk
from edge_runtime.dialects.whisper_live import WhisperLive
from edge_runtime.errors import ConfigError, PortTaken
from edge_runtime.server import Limits
from edge_runtime.server.keys import Keys

KINDS = ("vosk", "sherpa_onnx", "whisper_live")


@pytest.fixture
def free():
    """`free(n)`: that many ports that nobody listens on."""

    def found(count):
        taken = [sockets.create_server(("127.0.0.1", 0)) for _ in range(count)]
        try:
            return [each.getsockname()[1] for each in taken]
        finally:
            for each in taken:
                each.close()

    return found


@pytest.fixture
def ported(house, free):
    """`await ported()`: a server that speaks all three; gives it, and `connect(kind, …)`."""

    async def start(**options):
        where = dict(zip(KINDS, free(3), strict=True))
        dialects = {f"{kind}_port": port for kind, port in where.items()}
        server = await house(dialects=dialects, **options)

        async def connect(kind, query="", **how):
            socket = await server.http.ws_connect(f"ws://127.0.0.1:{where[kind]}/{query}", **how)
            server.sockets.append(socket)
            return socket

        return server, connect

    return start


async def hear(socket):
    """The next text, as JSON where it is; None at the end."""
    message = await asyncio.wait_for(socket.receive(), 10)
    if message.type is not aiohttp.WSMsgType.TEXT:
        return None
    return message.data if message.data == "Done!" else json.loads(message.data)


async def everything(socket):
    """All that is said until the socket closes, and its code."""
    said = []
    while (each := await hear(socket)) is not None:
        said.append(each)
    return said, socket.close_code


def floats(count):
    return struct.pack("<f", 0.25) * count


async def test_vosk_answers_each_message_and_ends_with_the_rest(ported, speech):
    server, connect = await ported()
    socket = await connect("vosk")
    await socket.send_json({"config": {"sample_rate": 16000}})
    for _ in range(5):
        await socket.send_bytes(speech(1600))
        assert set(await hear(socket)) == {"partial"}
    await socket.send_str('{"reset" : 1}')
    assert await hear(socket) == {"text": "8000"}
    await socket.send_bytes(speech(800))
    await hear(socket)
    await socket.send_str('{"eof" : 1}')
    assert await everything(socket) == ([{"text": "800"}], 1000)
    value = server.metrics.value
    assert value("edge_runtime_dialect_sessions_total", dialect="vosk") == 1
    assert value("edge_runtime_dialect_audio_seconds_total", dialect="vosk") == 0.55


async def test_vosk_answers_though_there_is_no_room_for_more(ported, speech):
    server, connect = await ported(pace=1.0, limits=Limits(linger=0.5, grace=0.1))
    socket = await connect("vosk")
    await socket.send_json({"config": {"sample_rate": 16000}})
    await socket.send_bytes(speech(32000))  # a second more than is taken in at once
    await hear(socket)
    (stream,) = server.runtime.streams
    assert sum(map(len, stream.heard)) < 16000


async def test_sherpa_onnx_ends_with_done(ported):
    server, connect = await ported()
    socket = await connect("sherpa_onnx")
    await socket.send_bytes(floats(1600)[:-1])
    await socket.send_bytes(floats(1)[-1:])  # messages may end anywhere
    await socket.send_str("Done")
    said, code = await everything(socket)
    assert said.pop() == "Done!"
    assert said[-1]["text"] == "1600"
    assert (said[-1]["is_final"], said[-1]["is_eof"], code) == (True, True, 1000)
    assert server.runtime.streams[0].heard[0][0] == 0.25


async def test_samples_that_are_no_numbers_count_as_silence(ported):
    server, connect = await ported()
    for kind in ("sherpa_onnx", "whisper_live"):
        socket = await connect(kind)
        if kind == "whisper_live":
            await socket.send_json({"uid": "x"})
        await socket.send_bytes(struct.pack("<4f", float("nan"), float("inf"), -9.0, 0.5))
        if kind == "whisper_live":
            await socket.send_bytes(b"END_OF_AUDIO")
        else:
            await socket.send_str("Done")
        assert (await everything(socket))[1] == 1000
        assert server.runtime.streams[-1].heard[0].tolist() == [0, 0, -1, 0.5]


async def test_whisper_live_tells_segments(ported):
    _, connect = await ported()
    socket = await connect("whisper_live")
    await socket.send_json({"uid": "me", "language": "en"})
    assert (await hear(socket))["message"] == "SERVER_READY"
    await socket.send_bytes(floats(1600))
    assert (await hear(socket))["segments"][-1]["completed"] is False
    await socket.send_bytes(b"END_OF_AUDIO")
    said, code = await everything(socket)
    assert {each["uid"] for each in said} == {"me"}
    assert said[-1]["segments"][-1]["text"] == " 1600"
    assert said[-1]["segments"][-1]["completed"] is True
    assert code == 1000


async def test_who_falls_silent_without_an_end_gets_the_text(ported, monkeypatch):
    monkeypatch.setattr(WhisperLive, "lull", 0.1)
    _, connect = await ported(serving={"idle_seconds": 1})
    socket = await connect("whisper_live")
    await socket.send_json({"uid": "me", "language": "en"})
    for text in (" 1600", " 800"):  # the session goes on
        await socket.send_bytes(floats(int(text)))
        while not (said := await hear(socket)).get("segments", [{}])[-1].get("completed"):
            pass
        assert said["segments"][-1]["text"] == text
    said, code = await everything(socket)
    assert said == [{"uid": "me", "message": "DISCONNECT"}]  # idle after all
    assert code == 1000


async def test_a_full_server_says_so(ported, read, speech):
    server, connect = await ported(serving={"max_sessions": 1})
    await read.until(await server.connect({}), "ready")
    for kind in KINDS:
        socket = await connect(kind)
        if kind == "whisper_live":
            await socket.send_json({"uid": "me"})
        (said,), code = await everything(socket)
        assert said.get("status") == "WAIT" or "free" in said["error"] or "session" in said["error"]
        assert code == 1013


async def test_what_is_wrong_ends_the_session_after_its_text(ported, speech):
    _, connect = await ported()
    socket = await connect("vosk")
    await socket.send_json({"config": {"sample_rate": 16000}})
    await socket.send_bytes(speech(1600))
    await hear(socket)
    await socket.send_str("what?")
    (said,), code = await everything(socket)
    assert said["text"] == "1600"
    assert "config" in said["error"]
    assert code == 1007
    socket = await connect("vosk")
    await socket.send_json({"config": {"sample_rate": 7}})
    await socket.send_bytes(speech(16))
    (said,), code = await everything(socket)
    assert "16000" in said["error"]
    assert code == 1003


async def test_keys_are_shown_in_each_clients_way(ported, tmp_path):
    key = Keys(tmp_path / "keys.json").add("phone")
    _, connect = await ported()
    ways = {
        "bearer": {"headers": {"Authorization": f"Bearer {key}"}},
        "query": {"query": f"?token={key}"},
    }
    for kind in KINDS:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await connect(kind)
        assert caught.value.status == 401
        for way in ways.values():
            await (await connect(kind, **way)).close()
    socket = await connect("whisper_live", protocols=("bearer", key))
    assert socket.protocol == "bearer"
    await socket.close()


async def test_they_are_off_until_they_have_a_port(house, free):
    assert Dialects().vosk_port == Dialects().sherpa_onnx_port == Dialects().whisper_live_port == 0
    (port,) = free(1)
    await house(dialects={"vosk_port": port})
    with pytest.raises(PortTaken, match=str(port)):
        await house(dialects={"vosk_port": port})


@pytest.mark.parametrize(
    ("dialects", "says"),
    [
        (
            {"vosk_port": 2700, "whisper_live_port": 2700},
            "whisper_live_port is 2700, and so is dia",
        ),
        ({"sherpa_onnx_port": 8765}, "sherpa_onnx_port is 8765, and so is serving.port"),
    ],
)
def test_a_port_is_for_one_protocol(dialects, says):
    with pytest.raises(ConfigError, match=says):
        Dialects(**dialects).check_ports(8765)
    Dialects(vosk_port=1, sherpa_onnx_port=2).check_ports(0)


async def test_a_port_that_two_want_is_refused_before_a_model_is_loaded(house, free):
    (port,) = free(1)
    with pytest.raises(ConfigError, match=rf"{port}, and so is"):
        await house(dialects={"vosk_port": port, "sherpa_onnx_port": port})


GOOD = {
    "vosk": [
        (1, b'{"config":{"sample_rate":16000,"words":true,"max_alternatives":0}}'),
        (1, b'{"reset" : 1}'),
        (2, b"\x00\x10" * 32),
    ],
    "sherpa_onnx": [(1, b"Done ."), (2, floats(32))],
    "whisper_live": [
        (1, b'{"uid":"me","language":"en","audio_format":"int16","word_timestamps":true}'),
        (2, floats(32)),
        (2, b"END_OF_AUDIO."),
    ],
}
FIRST = {"vosk": 0.0, "sherpa_onnx": 0.0, "whisper_live": 0.8}
"""How often a session begins as it should."""

DIALECTS = {"vosk": Vosk, "sherpa_onnx": SherpaOnnx, "whisper_live": WhisperLive}


@pytest.fixture
def counted(monkeypatch):
    """`counted(dialect)`: a list that grows with each message that comes to it."""

    def watch(dialect):
        seen = []
        for name in ("read", "hear"):
            usual = getattr(dialect, name)

            def taken(self, data, usual=usual):
                seen.append(len(data))
                return usual(self, data)

            monkeypatch.setattr(dialect, name, taken)
        return seen

    return watch


@pytest.mark.parametrize("kind", KINDS)
async def test_damaged_messages_are_answered_and_nobody_else_is_touched(
    ported, read, speech, fuzz, counted, kind
):
    """Messages of a good session, changed at random places, until one ends it."""
    seen = counted(DIALECTS[kind])
    server, connect = await ported()
    other = await server.connect({"partials": False})
    await other.send_bytes(speech(1600))
    for number in itertools.count():
        if len(seen) >= fuzz.frames:
            break
        socket = await connect(kind)
        if fuzz.chance.random() < FIRST[kind]:
            await socket.send_frame(GOOD[kind][0][1], 1)
        hearing = asyncio.create_task(everything(socket))
        for _ in range(25):
            how, good = fuzz.chance.choice(GOOD[kind])
            await socket.send_frame(
                fuzz.damaged(good), fuzz.chance.choice([how, how, how, 3 - how])
            )
        await socket.send_frame(b"Done" if kind == "sherpa_onnx" else b'{"eof" : 1}', 1)
        if kind == "whisper_live":
            await socket.send_frame(b"END_OF_AUDIO", 2)
        _, code = await hearing
        assert code in {1000, 1003, 1007, 1008}
        server.sockets.clear()
        del server.runtime.streams[1:]
        if number % 100 == 10:
            fuzz.looked()
    await other.send_json({"type": "stop"})
    events, code = await read.rest(other)
    assert [event["text"] for event in events if event["type"] == "final"] == ["1600"]
    assert code == 1000

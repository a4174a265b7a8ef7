"""The client against a scripted server: what is sent, when it stops, what it collects."""

import asyncio
import json

import numpy as np
import pytest
from aiohttp import web

from edge_runtime import events
from edge_runtime.bench import client
from edge_runtime.bench.client import Playing, play
from edge_runtime.errors import EdgeRuntimeError

CLIP = np.full(4000, 0.25, np.float32)  # 0.25 s: pieces of 1600, 1600 and 800 samples


class Script:
    """Answers `start` with `ready`, notes messages, closes after `stop`; a turn if asked."""

    def __init__(self, *, close_turn_after=None, error=False, key=None):
        self.key = key
        self.requests = []
        self.audio = []
        self._close_turn_after = close_turn_after
        self._error = error

    async def _say(self, socket, event):
        await socket.send_str(events.encode(event).decode())

    async def handle(self, request):
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            raise web.HTTPUnauthorized
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            if message.type.name == "BINARY":
                self.audio.append(message.data)
                await self._heard(socket)
                continue
            wanted = json.loads(message.data)
            self.requests.append(wanted)
            if wanted["type"] == "start":
                await self._start(socket)
            elif wanted["type"] == "flush":
                await self._say(socket, events.Flushed())
            elif wanted["type"] == "stop":
                await self._say(socket, events.Closed(reason="stop", audio_seconds=0.25))
                break
        await socket.close()
        return socket

    async def _start(self, socket):
        await self._say(
            socket,
            events.Ready(
                session="s",
                resume="r",
                next_sample=0,
                model="m",
                device="d",
                sample_rate=16000,
            ),
        )
        if self._error:
            await self._say(socket, events.Error(code="full", message="no room", fix="Wait."))

    async def _heard(self, socket):
        if self._close_turn_after is None:
            return
        if len(self.audio) == 1:
            await self._say(socket, events.SpeechStart(segment=0, turn=0, at=0.0))
        if len(self.audio) == self._close_turn_after:
            await self._say(socket, events.SpeechEnd(turn=0, at=0.2))


@pytest.fixture
async def serve():
    runners = []

    async def start(script):
        app = web.Application()
        app.router.add_get("/v1/stream", script.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return f"ws://127.0.0.1:{runner.addresses[0][1]}/v1/stream"

    yield start
    for runner in runners:
        await runner.cleanup()


async def test_audio_goes_out_as_it_is_in_pieces_of_100_ms(serve):
    script = Script()
    take = await play(await serve(script), "clip", CLIP, Playing(paced=False, after="stop"))
    assert [len(piece) for piece in script.audio] == [3200, 3200, 1600]
    assert set(np.frombuffer(b"".join(script.audio), "<i2").tolist()) == {8192}
    assert [r["type"] for r in script.requests] == ["start", "stop"]
    assert [type(a.event).__name__ for a in take.arrivals] == ["Ready", "Closed"]
    assert take.seconds == 0.25


async def test_options_are_asked_for(serve):
    script = Script()
    playing = Playing(paced=False, partials=False, words=True, endpoint_ms=700, after="flush")
    await play(await serve(script), "clip", CLIP, playing)
    start = script.requests[0]
    assert (start["partials"], start["words"], start["endpoint_ms"]) == (False, True, 700)
    assert [r["type"] for r in script.requests] == ["start", "flush", "stop"]


async def test_paced_audio_takes_its_time(serve):
    loop = asyncio.get_running_loop()
    url = await serve(Script())
    began = loop.time()
    await play(url, "clip", CLIP, Playing(after="stop"))
    assert loop.time() - began >= 0.25


async def test_silence_follows_until_the_turn_is_closed(serve):
    # the clip's 0.25 s, an endpoint of 500 ms and 300 ms more: 1.05 s at least; the turn closes
    # with the 14th piece, so silence goes on until then
    script = Script(close_turn_after=14)
    await play(await serve(script), "clip", CLIP)
    assert 14 <= len(script.audio) <= 15
    assert script.audio[3] == bytes(3200)


async def test_silence_ends_when_patience_does(serve):
    script = Script(close_turn_after=99)
    await play(await serve(script), "clip", CLIP, Playing(patience=1.2))
    assert len(script.audio) == 3 + 12


async def test_unpaced_silence_has_a_fixed_length(serve):
    script = Script(close_turn_after=99)
    await play(await serve(script), "clip", CLIP, Playing(paced=False, endpoint_ms=700))
    assert [len(piece) for piece in script.audio[3:]] == [2 * 19200]  # 0.7 and 0.5 s


async def test_a_clip_can_be_repeated(serve):
    script = Script()
    playing = Playing(paced=False, after="stop", repeat=3)
    take = await play(await serve(script), "clip", CLIP, playing)
    assert sum(map(len, script.audio)) == 3 * 8000
    assert take.seconds == 0.75


async def test_an_error_event_is_raised_with_its_fix(serve):
    with pytest.raises(EdgeRuntimeError, match=r"no room. Wait\."):
        await play(await serve(Script(error=True)), "clip", CLIP)


async def test_no_server_is_told():
    with pytest.raises(EdgeRuntimeError, match="Start `edge-runtime serve`"):
        await play("ws://127.0.0.1:9/v1/stream", "clip", CLIP)


async def test_a_server_that_wants_a_key_gets_that_of_the_environment(serve, monkeypatch):
    url = await serve(Script(key="er_x"))
    with pytest.raises(EdgeRuntimeError, match=r"answers 401.*EDGE_RUNTIME_KEY"):
        await play(url, "clip", CLIP, Playing(paced=False, after="stop"))
    monkeypatch.setenv("EDGE_RUNTIME_KEY", "er_x")
    take = await play(url, "clip", CLIP, Playing(paced=False, after="stop"))
    assert type(take.arrivals[-1].event) is events.Closed


async def test_a_server_that_never_flushes_is_told(serve, monkeypatch):
    class Deaf(Script):
        async def _say(self, socket, event):
            if not isinstance(event, events.Flushed):
                await super()._say(socket, event)

    monkeypatch.setattr(client, "UNPACED_SECONDS", 0.2)
    with pytest.raises(EdgeRuntimeError, match=r"no `flushed` within 0\.2 s"):
        await play(await serve(Deaf()), "clip", CLIP, Playing(paced=False, after="flush"))

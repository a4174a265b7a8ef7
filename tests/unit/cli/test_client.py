"""The client of the native protocol, against a socket that answers by a script."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any

import numpy as np
import pytest
from aiohttp import WSMsgType, web

from edge_runtime import events
from edge_runtime.audio.ring import Samples
from edge_runtime.cli.client import _converse
from edge_runtime.errors import AudioError, EdgeRuntimeError, ServerUnreachable

Script = Callable[[web.WebSocketResponse], Awaitable[None]]


class Seen:
    """A view that keeps what it was shown."""

    def __init__(self) -> None:
        self.events: list[events.Event] = []

    def __enter__(self) -> Seen:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, event: events.Event) -> None:
        self.events.append(event)


class Tone:
    """Blocks of 100 ms that hold their own number; may break off with an error."""

    name, seconds, live = "tone", None, False
    warnings: list[str] = []  # noqa: RUF012

    def __init__(self, blocks: int, breaks: bool = False) -> None:
        self._blocks, self._breaks = blocks, breaks

    def __iter__(self) -> Iterator[Samples]:
        for number in range(self._blocks):
            yield np.full(1600, (number + 1) / 32767, np.float32)
        if self._breaks:
            raise AudioError("the file ends in the middle")

    def __enter__(self) -> Tone:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


class Server:
    """Counts what comes, and at `stop` sends a final and `closed`."""

    def __init__(self) -> None:
        self.texts: list[dict[str, Any]] = []
        self.audio = b""
        self.url = ""
        self.status = 101
        self.shown: list[str | None] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.shown.append(request.headers.get("Authorization"))
        if self.status != 101:
            return web.Response(status=self.status)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await self.talk(socket)
        await socket.close()
        return socket

    async def talk(self, socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                self.audio += message.data
                continue
            self.texts.append(json.loads(message.data))
            if self.texts[-1]["type"] == "stop":
                await self.send(socket, FINAL)
                await self.send(socket, events.Closed(seq=2, reason="stop", audio_seconds=0.5))

    async def send(self, socket: web.WebSocketResponse, event: events.Event) -> None:
        await socket.send_str(events.encode(event).decode())


FINAL = events.Final(
    seq=1, segment=0, turn=0, reason="stop", text="Hi.", start=0.0, end=0.5, logprob=-0.1
)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    app = web.Application()
    app.router.add_get("/v1/stream", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    made.url = f"ws://127.0.0.1:{port}/v1/stream"
    yield made
    await runner.cleanup()


async def test_sends_start_then_every_sample_then_stop(server: Server) -> None:
    view = Seen()
    await _converse(server.url, events.Start(words=True), Tone(5), view, paced=False)
    assert [text["type"] for text in server.texts] == ["start", "stop"]
    assert server.texts[0]["words"] is True
    samples = np.frombuffer(server.audio, "<i2")
    assert samples.tolist() == [number for number in range(1, 6) for _ in range(1600)]
    assert [type(event).__name__ for event in view.events] == ["Final", "Closed"]


@pytest.mark.parametrize(
    ("status", "fix"), [(401, "EDGE_RUNTIME_KEY"), (429, "Wait"), (404, "--url")]
)
async def test_a_server_that_turns_us_away_is_told_from_none(
    server: Server, status: int, fix: str
) -> None:
    server.status = status
    with pytest.raises(ServerUnreachable) as caught:
        await _converse(server.url, events.Start(), Tone(1), Seen(), paced=False)
    assert server.url in caught.value.message
    assert fix in caught.value.fix


async def test_the_key_of_the_environment_is_shown(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _converse(server.url, events.Start(), Tone(1), Seen(), paced=False)
    monkeypatch.setenv("EDGE_RUNTIME_KEY", "er_x")
    await _converse(server.url, events.Start(), Tone(1), Seen(), paced=False)
    assert server.shown == [None, "Bearer er_x"]


async def test_paces_like_a_microphone(server: Server) -> None:
    began = time.monotonic()
    await _converse(server.url, events.Start(), Tone(5), Seen(), paced=True)
    assert 0.5 <= time.monotonic() - began < 1.5


async def test_a_source_that_breaks_off_loses_nothing_said_before(server: Server) -> None:
    view = Seen()
    with pytest.raises(AudioError, match="ends in the middle"):
        await _converse(server.url, events.Start(), Tone(3, breaks=True), view, paced=False)
    assert view.events[0] == FINAL
    assert len(server.audio) == 3 * 3200


async def test_the_server_s_error_is_raised_with_its_fix(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(socket: web.WebSocketResponse) -> None:
        await server.send(socket, events.Error(code="full", message="no room", fix="Wait 5 s."))
        await socket.close(code=1013)

    monkeypatch.setattr(server, "talk", full)
    with pytest.raises(EdgeRuntimeError) as caught:
        await _converse(server.url, events.Start(), Tone(500), Seen(), paced=True)
    assert (caught.value.message, caught.value.fix) == ("no room", "Wait 5 s.")


async def test_a_server_that_hangs_up_is_said(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(socket: web.WebSocketResponse) -> None:
        await server.send(socket, FINAL)
        await socket.close(code=1011)

    monkeypatch.setattr(server, "talk", gone)
    view = Seen()
    with pytest.raises(ServerUnreachable, match="close code 1011"):
        await _converse(server.url, events.Start(), Tone(500), view, paced=True)
    assert view.events == [FINAL]


async def test_another_protocol_is_said(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def other(socket: web.WebSocketResponse) -> None:
        await socket.send_str('{"type":"hello"}')

    monkeypatch.setattr(server, "talk", other)
    with pytest.raises(ServerUnreachable, match="another protocol"):
        await _converse(server.url, events.Start(), Tone(1), Seen(), paced=False)


@pytest.mark.parametrize("url", ["ws://127.0.0.1:9/v1/stream", "nonsense", "ws://127.0.0.1:9"])
async def test_nobody_there(url: str) -> None:
    with pytest.raises(ServerUnreachable, match="no server answers at"):
        await _converse(url, events.Start(), Tone(1), Seen(), paced=False)

"""The native protocol: `GET /v1/stream`, a WebSocket of JSON events and binary audio."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

import msgspec
from aiohttp import WSMsgType, web

from edge_runtime.audio.codec import Decoder
from edge_runtime.errors import AudioError, EdgeRuntimeError, ProtocolError
from edge_runtime.events import Closed, Error, Event, Flush, Start, encode
from edge_runtime.server import requests
from edge_runtime.server.ear import open_microphone
from edge_runtime.server.guest import Guest
from edge_runtime.server.state import STATE, State
from edge_runtime.session import Options

_log = logging.getLogger(__name__)


async def stream(request: web.Request) -> web.WebSocketResponse:
    """Serve one client until its session is over or it vanishes."""
    state = request.app[STATE]
    socket: web.WebSocketResponse = web.WebSocketResponse(
        max_msg_size=state.limits.message,
        timeout=state.limits.linger,
        compress=False,
        decode_text=False,
    )
    await socket.prepare(request)
    line = Line(socket, request, state)
    try:
        await line.run()
    except ProtocolError as error:
        state.metrics.refused(error.code)
        await line.refuse(error)
    except (ConnectionError, asyncio.TimeoutError):
        _log.debug("a client vanished before its session began")
    return socket


class Line:
    """One socket of one guest: a task that reads and a task that writes."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request, state: State) -> None:
        self._socket = socket
        self._request = request
        self._state = state
        self._given_up = asyncio.Event()

    async def run(self) -> None:
        """From `start` to the last event; raises `ProtocolError` before the session begins."""
        guest = await self._greet()
        if guest is not None:
            try:
                await self._serve(guest)
            finally:
                self._state.parking.leave(guest, self)

    async def refuse(self, error: ProtocolError) -> None:
        """Say what is wrong, and close."""
        event = Error(seq=1, code=error.code, message=error.message, fix=error.fix)
        with contextlib.suppress(ConnectionError):
            await self._send(event, time.monotonic())
        await self._close(error.close_code, error.code)

    async def give_up(self) -> None:
        """Let go of the guest: another socket serves it now."""
        self._given_up.set()

    async def _greet(self) -> Guest | None:
        state, limits = self._state, self._state.limits
        try:
            message = await self._socket.receive(timeout=limits.hello)
        except asyncio.TimeoutError:
            raise _start_first(f"no message within {limits.hello:g} s") from None
        if message.type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
            return None
        state.metrics.received(len(message.data))
        self._measure(message.data)
        if message.type is WSMsgType.BINARY:
            raise _start_first("audio came before the start message")
        start = requests.read(message.data)
        if not isinstance(start, Start):
            raise _start_first("the first message is not a start message")
        runtime = state.runtime
        if runtime is None or state.closing:
            raise ProtocolError(
                "not_ready",
                "the server is " + ("shutting down" if state.closing else "loading"),
                "Try again in a few seconds; /readyz tells when.",
                1013,
            )
        if start.resume is not None and start.resume.token:
            guest = await self._resume(start)
            greeting = msgspec.structs.replace(guest.ready(runtime), seq=start.resume.last_seq)
            with contextlib.suppress(ConnectionError):  # noticed again at once when served
                await self._send(greeting, time.monotonic())
            return guest
        guest = await self._open(start)
        state.parking.admit(guest, self)
        guest.outbox.put(guest.ready(runtime))
        return guest

    async def _open(self, start: Start) -> Guest:
        state = self._state
        assert state.runtime is not None
        try:
            decoder = Decoder(start.encoding, start.sample_rate, start.channels)
        except AudioError as error:
            raise ProtocolError("unsupported_audio", error.message, error.fix, 1003) from None
        if len(state.parking) >= state.config.serving.max_sessions:
            raise state.full()
        microphone = None
        if start.source is not None:
            try:
                microphone = await asyncio.to_thread(open_microphone, start.source)
            except EdgeRuntimeError as error:
                raise ProtocolError(error.code, error.message, error.fix) from None
        try:
            opened = state.runtime.open(
                Options(partials=start.partials, words=start.words, endpoint_ms=start.endpoint_ms)
            )
        except ProtocolError:  # no room for it
            if microphone is not None:
                await asyncio.to_thread(microphone.close)
            raise
        guest = Guest(start, opened, decoder, state.metrics, state.limits)
        if microphone is not None:
            guest.listen(microphone)
        return guest

    async def _resume(self, start: Start) -> Guest:
        assert start.resume is not None
        guest = await self._state.parking.take(start.resume, self)
        audio = (start.encoding, start.sample_rate, start.channels)
        before = (guest.start.encoding, guest.start.sample_rate, guest.start.channels)
        if audio not in {before, (Start().encoding, Start().sample_rate, Start().channels)}:
            self._state.parking.leave(guest, self)
            raise ProtocolError(
                "resume_mismatch",
                f"the session's audio is {before}, not {audio}",
                "Send the fields of the first start again, or leave them out.",
            )
        return guest

    async def _serve(self, guest: Guest) -> None:
        reading = asyncio.create_task(self._read(guest))
        writing = asyncio.create_task(self._write(guest))
        given_up = asyncio.create_task(self._given_up.wait())
        full = asyncio.create_task(guest.outbox.full.wait())
        tasks = {reading, writing, given_up, full}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and not (writing.done() or given_up.done() or full.done()):
                try:
                    reason = reading.result()
                except ProtocolError as error:
                    await guest.finish(error)
                else:
                    if reason is None:  # vanished
                        return
                    await guest.finish(reason)
                await asyncio.wait({writing, given_up, full}, return_when=asyncio.FIRST_COMPLETED)
            await self._end(guest, writing, given_up, reading)
        finally:
            if not guest.over.is_set():
                # what is on its way into the stream gets there, so that `next_sample` is true
                async with guest.listening:
                    reading.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _end(
        self,
        guest: Guest,
        writing: asyncio.Task[bool],
        given_up: asyncio.Task[bool],
        reading: asyncio.Task[str | None],
    ) -> None:
        if given_up.done():
            await self._close(1001, "resumed elsewhere", reading)
        elif writing.done() and writing.exception() is None and writing.result():
            if await self._close(guest.close_code, "", reading):
                self._state.parking.dismiss(guest)
        elif writing.done() and isinstance(writing.exception(), ConnectionError):
            return
        else:
            writing.cancel()
            event = Error(
                code="slow_client",
                message="the client does not read its events",
                fix="Read events while sending audio; start with partials false for fewer.",
            )
            self._state.metrics.event(event)
            with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
                await asyncio.wait_for(self._send(event, time.monotonic()), 0.1)
            await self._close(1008, "slow_client", reading)

    async def _read(self, guest: Guest) -> str | None:
        """Until `stop` or too long a silence (why), or until the client vanished (None)."""
        state = self._state
        idle = None if guest.start.source else state.config.serving.idle_seconds
        while True:
            try:
                message = await self._socket.receive(timeout=idle)
            except asyncio.TimeoutError:
                return "idle"
            if message.type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
                return None
            state.metrics.received(len(message.data))
            self._measure(message.data)
            if message.type is WSMsgType.BINARY:
                if guest.start.source:
                    raise ProtocolError(
                        "unexpected_audio",
                        f"audio came, but the source is {guest.start.source}",
                        'Leave "source" out to send audio.',
                        1003,
                    )
                await guest.hear(message.data)
                continue
            request = requests.read(message.data)
            if isinstance(request, Start):
                raise ProtocolError(
                    "already_started",
                    "a second start message",
                    "Open another connection for another session.",
                )
            if not isinstance(request, Flush):
                return "stop"
            await guest.flush()

    async def _write(self, guest: Guest) -> bool:
        """Until the last event is out (True), or the client takes nothing for too long."""
        while True:
            event, made = await guest.outbox.take()
            try:
                await asyncio.wait_for(self._send(event, made), self._state.limits.blocked)
            except asyncio.TimeoutError:
                return False
            if isinstance(event, (Closed, Error)):
                return True

    async def _send(self, event: Event, made: float) -> None:
        data = encode(event)
        await self._socket.send_str(data.decode())
        self._state.metrics.sent(event, len(data), time.monotonic() - made)

    async def _close(
        self, code: int, reason: str, reading: asyncio.Task[str | None] | None = None
    ) -> bool:
        """Close with `code`; true where the client answered, so has everything sent before."""
        if reading is not None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(
                self._socket.close(code=code, message=reason.encode()),
                2 * self._state.limits.linger,
            )
        if self._socket.close_code in {None, 1006}:
            transport = self._request.transport
            if transport is not None:  # nobody reads what is still in its buffer
                transport.abort()
            return False
        return True

    def _measure(self, data: bytes) -> None:
        most = self._state.config.serving.max_message_bytes
        if len(data) > most:
            raise ProtocolError(
                "too_big",
                f"a message of {len(data)} bytes; at most {most} are taken",
                "Send audio in smaller messages: 100 ms each is a good size.",
                1009,
            )


def _start_first(message: str) -> ProtocolError:
    return ProtocolError(
        "start_first", message, 'Send {"type":"start"} as the first message, then audio.'
    )

"""The native protocol: `GET /v1/stream`, a WebSocket of JSON events and binary audio."""

from __future__ import annotations

import asyncio
import contextlib
import time

import msgspec
from aiohttp import web

from edge_runtime.audio.codec import Decoder
from edge_runtime.errors import AudioError, EdgeRuntimeError, ProtocolError
from edge_runtime.events import Resume, Start
from edge_runtime.server.base import Runtime, Stream
from edge_runtime.server.ear import open_microphone
from edge_runtime.server.guest import Guest
from edge_runtime.server.line import Line
from edge_runtime.server.state import STATE, State
from edge_runtime.session import Options


async def stream(request: web.Request) -> web.WebSocketResponse:
    """Serve one client until its session is over or it vanishes."""
    state = request.app[STATE]
    # text stays bytes, so that we answer what is not UTF-8; captions are too short to compress
    socket = web.WebSocketResponse(
        max_msg_size=state.limits.message,
        timeout=state.limits.linger,
        compress=False,
        decode_text=False,
    )
    await socket.prepare(request)
    line = Line(socket, request, state)
    try:
        await _converse(line, state)
    finally:
        line.release()
    return socket


async def _converse(line: Line, state: State) -> None:
    try:
        guest = await _greet(line, state)
    except ProtocolError as error:
        state.metrics.refused(error.code)
        line.release()
        await line.refuse(error)
        return
    if guest is not None:
        try:
            await line.serve(guest)
        finally:
            state.parking.leave(guest, line)


async def _greet(line: Line, state: State) -> Guest | None:
    """The guest that the first message asks for; None where the client vanished."""
    try:
        start = await line.receive(state.limits.hello)
    except asyncio.TimeoutError:
        raise _start_first(f"no message within {state.limits.hello:g} s") from None
    if start is None:
        return None
    if isinstance(start, bytes):
        raise _start_first("audio came before the start message")
    if not isinstance(start, Start):
        raise _start_first("the first message is not a start message")
    runtime = state.runtime
    if runtime is None or state.closing:
        raise ProtocolError(
            "not_ready",
            f"the server is {'shutting down' if state.closing else 'loading'}",
            "Try again in a few seconds; /readyz tells when.",
            1013,
        )
    if start.resume is not None and start.resume.token:
        return await _resume(start, start.resume, line, state, runtime)
    guest = await _open(start, state, runtime)
    state.parking.admit(guest, line)
    guest.outbox.put(guest.ready(runtime))
    return guest


async def _open(start: Start, state: State, runtime: Runtime) -> Guest:
    try:
        decoder = Decoder(start.encoding, start.sample_rate, start.channels)
    except AudioError as error:
        raise ProtocolError("unsupported_audio", error.message, error.fix, 1003) from None
    if start.source is None:
        return Guest(start, _opened(start, state, runtime), decoder, state.metrics, state.limits)
    try:
        microphone = await asyncio.to_thread(open_microphone, start.source)
    except EdgeRuntimeError as error:
        raise ProtocolError(error.code, error.message, error.fix) from None
    try:
        opened = _opened(start, state, runtime)
    except ProtocolError:  # no room for it
        await asyncio.to_thread(microphone.close)
        raise
    guest = Guest(start, opened, decoder, state.metrics, state.limits)
    guest.listen(microphone)
    return guest


def _opened(start: Start, state: State, runtime: Runtime) -> Stream:
    if len(state.parking) >= state.config.serving.max_sessions:
        raise state.full()
    return runtime.open(
        Options(partials=start.partials, words=start.words, endpoint_ms=start.endpoint_ms)
    )


async def _resume(
    start: Start, resume: Resume, line: Line, state: State, runtime: Runtime
) -> Guest:
    guest = await state.parking.take(resume, line)
    asked, had, usual = map(_format, (start, guest.start, Start()))
    if asked not in {had, usual}:
        state.parking.leave(guest, line)
        raise ProtocolError(
            "resume_mismatch",
            f"the session's audio is {had}, not {asked}",
            "Send the fields of the first start again, or leave them out.",
        )
    greeting = msgspec.structs.replace(guest.ready(runtime), seq=resume.last_seq)
    with contextlib.suppress(ConnectionError):  # noticed again as soon as it is served
        await line.send(greeting, time.monotonic())
    return guest


def _format(start: Start) -> str:
    return f"{start.encoding} at {start.sample_rate} Hz with {start.channels} channels"


def _start_first(message: str) -> ProtocolError:
    return ProtocolError(
        "start_first", message, 'Send {"type":"start"} as the first message, then audio.'
    )

"""Who comes in: a start message becomes a guest, a new one or one that was parked."""

from __future__ import annotations

import contextlib
import time

import msgspec

from edge_runtime.audio.codec import Decoder
from edge_runtime.errors import AudioError, EdgeRuntimeError, LanguageError, ProtocolError
from edge_runtime.events import Resume, Start
from edge_runtime.server.base import Runtime, Stream
from edge_runtime.server.choice import chosen
from edge_runtime.server.guest import Guest
from edge_runtime.server.line import Line
from edge_runtime.server.state import State
from edge_runtime.session import Options


def ready(state: State) -> Runtime:
    """The runtime that serves; raises `ProtocolError` while it loads or shuts down."""
    if state.runtime is None or state.closing:
        raise ProtocolError(
            "not_ready",
            f"the server is {'shutting down' if state.closing else 'loading'}",
            "Try again in a few seconds; /readyz tells when.",
            1013,
        )
    return state.runtime


def welcome(state: State) -> Runtime:
    """The same, where one more session is let in; raises `ServerFull`, too."""
    runtime = ready(state)
    if len(state.parking) >= state.config.serving.max_sessions:
        raise state.full()
    return runtime


async def admit(start: Start, line: Line, state: State) -> Guest:
    """The guest that `start` asks for, from now on served by `line`; raises `ProtocolError`."""
    if start.resume is not None and start.resume.token:
        return await _resume(start, start.resume, line, state)
    guest = await _open(start, line, state)
    state.parking.admit(guest, line)
    guest.outbox.put(guest.ready())
    return guest


def opened(start: Start, state: State, *, live: bool = True) -> tuple[Runtime, Stream]:
    """A stream, and the runtime that serves it; `live` where somebody speaks into it.

    Raises `ProtocolError`.
    """
    runtime = chosen(welcome(state), start.model)
    options = Options(
        partials=start.partials,
        words=start.words,
        endpoint_ms=start.endpoint_ms,
        speculate=live,
        live=live,
        language=(start.language or "").lower().partition("-")[0],
        task=start.task,
    )
    try:
        return runtime, runtime.open(options)
    except LanguageError as error:
        raise ProtocolError("unsupported_language", error.message, error.fix) from None


async def _open(start: Start, line: Line, state: State) -> Guest:
    chosen(welcome(state), start.model)  # before a microphone is opened for nothing
    try:
        decoder = Decoder(start.encoding, start.sample_rate, start.channels)
    except AudioError as error:
        raise ProtocolError("unsupported_audio", error.message, error.fix, 1003) from None
    if start.source is None:
        return _guest(start, opened(start, state), decoder, line, state)
    try:
        microphone = await state.microphones.open(start.source, state.config.microphones)
    except EdgeRuntimeError as error:
        raise ProtocolError(error.code, error.message, error.fix) from None
    try:
        serving = opened(start, state)
    except ProtocolError:  # no room for it
        await microphone.close()
        raise
    guest = _guest(start, serving, decoder, line, state)
    guest.listen(microphone)
    return guest


def _guest(
    start: Start, serving: tuple[Runtime, Stream], decoder: Decoder, line: Line, state: State
) -> Guest:
    dialect, owner = line.dialect.name, line.client.owner
    return Guest(start, serving, decoder, state.metrics, state.limits, dialect, owner)


async def _resume(start: Start, resume: Resume, line: Line, state: State) -> Guest:
    ready(state)
    guest = await state.parking.take(resume, line, line.client.owner)
    asked, had, usual = map(_format, (start, guest.start, Start()))
    mismatch = "" if asked in {had, usual} else f"the session's audio is {had}, not {asked}"
    if start.model not in {None, guest.model}:
        mismatch = f"the session's model is {guest.model}, not {str(start.model)[:80]!r}"
    if mismatch:
        state.parking.leave(guest, line)
        raise ProtocolError(
            "resume_mismatch",
            mismatch,
            "Send the fields of the first start again, or leave them out.",
        )
    greeting = msgspec.structs.replace(guest.ready(), seq=resume.last_seq)
    with contextlib.suppress(ConnectionError):  # noticed again as soon as it is served
        await line.send(greeting, time.monotonic())
    return guest


def _format(start: Start) -> str:
    return f"{start.encoding} at {start.sample_rate} Hz with {start.channels} channels"

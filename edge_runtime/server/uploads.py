"""Whole recordings: posted, decoded through a session beside the live ones, answered."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

from aiohttp import web

from edge_runtime.audio import RATE
from edge_runtime.audio.codec import CHANNELS_MAX, Decoder
from edge_runtime.audio.file import FileSource
from edge_runtime.audio.ring import Samples
from edge_runtime.dialects import Recorded
from edge_runtime.errors import AudioError, EdgeRuntimeError, ProtocolError, ServerFull
from edge_runtime.events import Closed, Error, Event, Final, Start
from edge_runtime.server.conversation import asked
from edge_runtime.server.form import received
from edge_runtime.server.guest import Guest
from edge_runtime.server.outside import without_paths
from edge_runtime.server.reception import opened, welcome
from edge_runtime.server.state import STATE, State
from edge_runtime.transcript import Transcript

_log = logging.getLogger(__name__)
_NAME = "the file"
_STATUS = {1001: 503, 1009: 413, 1011: 500, 1013: 503}
"""By what a WebSocket would close with; 400 for all else."""


def handler(make: type[Recorded]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Answers a recording in a dialect."""

    async def handle(request: web.Request) -> web.StreamResponse:
        state = request.app[STATE]
        try:
            with _place(state):
                return await _handle(request, make, state)
        except EdgeRuntimeError as error:
            return _refused(error, make, state)
        except ConnectionError:
            return web.Response(status=400)  # for nobody: the client went while it sent

    return handle


async def _handle(request: web.Request, make: type[Recorded], state: State) -> web.StreamResponse:
    data, fields = await received(
        request, make.field, state.config.dialects.max_upload_bytes, state.limits.blocked
    )
    dialect = make(asked(request), fields)
    dialect.file = data
    source = await asyncio.to_thread(FileSource, data, 1000, _NAME)
    with source:
        blocks = iter(source)
        if source.channels > CHANNELS_MAX:
            raise AudioError(
                f"{source.channels} channels are not supported", f"Send 1 to {CHANNELS_MAX}."
            )
        first = await asyncio.to_thread(next, blocks, None)
        if first is None:
            raise AudioError(f"{_NAME} holds no samples", "Record or copy it again.")
        start = Start(
            partials=False,
            words=dialect.words,
            endpoint_ms=dialect.endpoint_ms,
            model=dialect.asked.chosen,
            language=dialect.language,
            task=dialect.task,
        )
        recording = Recording(
            itertools.chain([first], blocks), start, dialect.name, state, lambda: _left(request)
        )
        try:
            if dialect.streams:
                return await _streamed(request, dialect, recording)
            return await _whole(dialect, recording)
        finally:
            await recording.leave()


class Recording:
    """A session without a connection: nobody can take it over, and none parks it."""

    def __init__(
        self,
        blocks: Iterable[Samples],
        start: Start,
        dialect: str,
        state: State,
        left: Callable[[], bool],
    ) -> None:
        """`left` tells whether the client has gone.

        Raises `ServerFull`, or `ProtocolError` while nothing is served.
        """
        self._state = state
        self._left = left
        self._over = False
        serving = opened(start, state, live=False)
        # What is fed is decoded already.
        self._guest = Guest(
            start, serving, Decoder("pcm_f32le"), state.metrics, state.limits, dialect
        )
        state.parking.admit(self._guest, self)
        most = state.config.dialects.max_upload_seconds
        self._feeding = asyncio.create_task(self._feed(iter(blocks), most))

    async def give_up(self) -> None:
        """Nobody else may have it."""

    async def events(self) -> AsyncIterator[Event]:
        """All of them; raises `ProtocolError` in the place of an `Error`."""
        while True:
            said, _ = await self._guest.outbox.take()
            assert isinstance(said, Event)
            if isinstance(said, Error):
                raise ProtocolError(said.code, said.message, said.fix, self._guest.close_code)
            if isinstance(said, Closed) and said.reason != "stop":  # or nobody hears this
                raise ProtocolError(
                    "closing", "the server shuts down", "Try again in a few seconds.", 1013
                )
            yield said
            if isinstance(said, Closed):
                return

    async def leave(self) -> None:
        """Let go of it; no thread reads the recording any more when it returns."""
        self._over = True
        if self._guest.over.is_set():
            self._state.parking.dismiss(self._guest)
        self._state.parking.leave(self._guest, self)
        await asyncio.wait({self._feeding})

    async def _feed(self, blocks: Iterator[Samples], most: float) -> None:
        try:
            ending = await self._fed(blocks, most)
        except Exception:  # noqa: BLE001  # whatever it is, the client hears of it
            _log.exception("a recording could not be read")
            ending = ProtocolError(
                "internal", f"{_NAME} could not be read to its end", "Convert it first.", 1011
            )
        if ending is not None:
            await self._guest.finish(ending)

    async def _fed(self, blocks: Iterator[Samples], most: float) -> str | ProtocolError | None:
        """Why the session ends; None where it has ended."""
        heard = 0
        while not self._over:
            if self._left():
                return "vanished"
            block = await asyncio.to_thread(next, blocks, None)
            if block is None:
                return "stop"
            heard += len(block)
            if heard > most * RATE:
                return ProtocolError(
                    "too_long", f"{_NAME} is longer than {most:g} s", "Send it in parts.", 1009
                )
            await self._guest.feed(block)
        return None


async def _whole(dialect: Recorded, recording: Recording) -> web.Response:
    finals: list[Final] = []
    seconds = 0.0
    async for event in recording.events():
        if isinstance(event, Final):
            finals.append(event)
        elif isinstance(event, Closed):
            seconds = event.audio_seconds
    # Subtitles of hours take a second, for which nobody else should wait.
    transcript = Transcript(_NAME, seconds, tuple(finals))
    body = await asyncio.to_thread(dialect.whole, transcript)
    return web.Response(body=body.data, headers={"Content-Type": body.type})


async def _streamed(
    request: web.Request, dialect: Recorded, recording: Recording
) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-store"}
    )
    try:
        await response.prepare(request)
        try:
            async for event in recording.events():
                if piece := dialect.piece(event):
                    await response.write(piece)
        except ProtocolError as error:
            said = Error(code=error.code, message=error.message, fix=error.fix)
            await response.write(dialect.piece(said))
        await response.write_eof()
    except ConnectionError:
        pass  # the client has gone
    return response


@contextlib.contextmanager
def _place(state: State) -> Iterator[None]:
    """One of the recordings that are taken at a time; raises `ServerFull`."""
    welcome(state)
    most = state.config.dialects.max_uploads
    if state.uploads >= most:
        raise ServerFull(
            f"{most} recordings are being transcribed", "Try again later, or raise max_uploads."
        )
    state.uploads += 1
    try:
        yield
    finally:
        state.uploads -= 1


def _left(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _refused(error: EdgeRuntimeError, make: type[Recorded], state: State) -> web.Response:
    if not isinstance(error, ProtocolError):
        close = 1003 if isinstance(error, AudioError) else 1011
        message, fix = without_paths(error.message), without_paths(error.fix)
        error = ProtocolError(error.code, message, fix, close)
    state.metrics.refused(error.code)
    state.metrics.dialects.refused(make.name, error.code)
    status = _STATUS.get(error.close_code, 400)
    headers = {"Retry-After": str(getattr(error, "retry_after", 1))} if status == 503 else {}
    return web.json_response(make.complaint(error), status=status, headers=headers)

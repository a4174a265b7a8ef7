"""One client's session on the server; it can outlive the socket that opened it."""

from __future__ import annotations

import asyncio
import logging
import secrets

import numpy as np

from edge_runtime import events
from edge_runtime.audio import RATE
from edge_runtime.audio.codec import Decoder
from edge_runtime.audio.ring import Samples
from edge_runtime.errors import EdgeRuntimeError, ProtocolError
from edge_runtime.events import Closed, Error, Event, Gate, Ready, Start, Why
from edge_runtime.metrics import Metrics
from edge_runtime.server.base import Limits, Runtime, Stream
from edge_runtime.server.ear import Ear
from edge_runtime.server.microphones import Microphone
from edge_runtime.server.outbox import Outbox
from edge_runtime.server.outside import discreet

_log = logging.getLogger(__name__)
_CLOSE_CODES = {"stop": 1000, "idle": 1000, "shutdown": 1001}


class Guest:
    """A stream with its decoder, its outbox, and the task that carries events between them.

    `close_code` and `close_reason` are what the socket closes with once the last event is out.
    """

    def __init__(
        self,
        start: Start,
        serving: tuple[Runtime, Stream],
        decoder: Decoder,
        metrics: Metrics,
        limits: Limits,
        dialect: str,
        owner: str = "",
    ) -> None:
        """`owner` is the hash of the key that it was opened with."""
        self.start = start
        self.owner = owner
        self.session = secrets.token_hex(4)
        self.token = _token()
        self.parks = start.resume is not None
        self.outbox = Outbox(limits.waiting, limits.kept if self.parks else 0)
        self.close_code = 1011
        self.close_reason = ""
        self.over = asyncio.Event()
        self.listening = asyncio.Lock()  # held while audio is on its way into the stream
        self._runtime, self._stream = serving
        self._decoder = decoder
        self._metrics = metrics
        self._dialect = dialect
        self._piece = limits.piece
        self._frame = decoder.frame_bytes
        self._taken = 0  # bytes, whole frames only
        self._rest = b""  # the beginning of a frame
        self._ear: Ear | None = None
        self._mended = False
        self._gated: set[Why] = {start.gated} if start.gated else set()
        self._ending: str | ProtocolError | None = None
        metrics.opened()
        metrics.dialects.opened(dialect)
        self._pump = asyncio.create_task(self._carry())

    @property
    def next_sample(self) -> int:
        """Where the client's audio goes on, in samples of its own rate."""
        return self._taken // self._frame

    @property
    def model(self) -> str:
        """The name of the model that it is served by."""
        return self._runtime.model

    def ready(self) -> Ready:
        """The greeting, as things stand."""
        return Ready(
            session=self.session,
            resume=self.token,
            next_sample=self.next_sample,
            model=self.model,
            device=self._runtime.device.name,
            sample_rate=self.start.sample_rate,
        )

    def renew(self) -> None:
        """Another token, by which it is asked for next."""
        self.token = _token()

    async def hear(self, data: bytes) -> float:
        """Take in the audio of one message, of so many seconds; waits while there is no room.

        Raises `ProtocolError` where the audio comes from a microphone.
        """
        if self.start.source is not None:
            raise ProtocolError(
                "unexpected_audio",
                f"audio came, but the source is {self.start.source!r}",
                'Leave "source" out to send audio.',
                1003,
            )
        async with self.listening:
            if self._ending is not None:
                return 0.0
            data = self._rest + data if self._rest else data
            whole = len(data) // self._frame * self._frame
            self._rest = data[whole:]
            step = max(self._frame, self._piece // self._frame * self._frame)
            for first in range(0, whole, step):
                piece = data[first : min(first + step, whole)]
                await self._feed(self._decoder.push(piece))
                self._taken += len(piece)
            self._warn_of_mended()
            return whole / self._frame / self.start.sample_rate

    async def feed(self, pcm: Samples) -> None:
        """Take in 16 kHz mono float32 samples; waits while the stream has no room."""
        async with self.listening:
            if self._ending is None:
                await self._feed(pcm)

    def listen(self, microphone: Microphone) -> None:
        """Hear the device's own microphone from now on."""
        self._ear = Ear(microphone, self._overhear, self._warn)

    async def gate(self, gate: Gate) -> None:
        """Hear silence for a reason, from the audio on that came so far, or no longer."""
        async with self.listening:
            (self._gated.discard if gate.open else self._gated.add)(gate.why)

    async def flush(self) -> None:
        """Ask for a final of all that came so far."""
        async with self.listening:
            if self._ending is None:
                await self._feed_tail()
                self._stream.flush()

    async def finish(self, ending: str | ProtocolError) -> None:
        """No more audio: finals, then `closed` with the reason, or the error."""
        async with self.listening:
            if self._ending is not None:
                return
            self._ending = ending
            if self._ear is not None:
                await self._ear.close()
            if self._rest:
                self._say(
                    events.Warning(
                        code="odd_bytes",
                        message=f"{len(self._rest)} bytes at the end are no whole sample: left out",
                    )
                )
            await self._feed_tail()
            self._stream.stop("error" if isinstance(ending, ProtocolError) else ending)

    def forget_rest(self) -> None:
        """Drop the part of a frame that a lost socket left behind."""
        self._rest = b""

    async def abandon(self) -> None:
        """End without ceremony: nobody waits for what is left."""
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)

    async def _feed_tail(self) -> None:
        tail = self._decoder.flush()  # what the resampler held back
        if len(tail):
            await self._stream.feed(self._let_in(tail))

    async def _feed(self, pcm: Samples) -> None:
        await self._stream.feed(self._let_in(pcm))
        self._count(pcm)

    def _overhear(self, pcm: Samples) -> None:
        self._stream.offer(self._let_in(pcm))
        self._count(pcm)

    def _let_in(self, pcm: Samples) -> Samples:
        return np.zeros_like(pcm) if self._gated else pcm

    def _count(self, pcm: Samples) -> None:
        self._metrics.heard(len(pcm) / RATE)
        self._metrics.dialects.heard(self._dialect, len(pcm) / RATE)

    def _warn(self, code: str, message: str) -> None:
        self._say(events.Warning(code=code, message=message))

    def _warn_of_mended(self) -> None:
        if not self._mended and self._decoder.warnings:
            self._mended = True
            self._say(
                events.Warning(
                    code="odd_samples",
                    message="NaN and infinite samples count as 0, those beyond ±1 are clipped",
                )
            )

    async def _carry(self) -> None:
        reason = "failed"
        try:
            async for event in self._stream:
                said = self._farewell(event) if isinstance(event, Closed) else event
                if isinstance(said, (Closed, Error)):
                    reason = said.reason if isinstance(said, Closed) else "error"
                self._say(said)
        except EdgeRuntimeError as error:
            _log.error("session %s failed: %s", self.session, error)
            if isinstance(error, ProtocolError):
                self.close_code = error.close_code
            self._say(Error(code=error.code, message=error.message, fix=error.fix))
        except Exception:  # noqa: BLE001  # whatever it is, the client hears of it
            _log.exception("session %s failed", self.session)
            self._say(
                Error(
                    code="internal",
                    message="the session failed",
                    fix="Start a new session; the server's log says more.",
                )
            )
        finally:
            self._metrics.closed(reason)
            self.over.set()

    def _farewell(self, closed: Closed) -> Event:
        ending = self._ending
        if isinstance(ending, ProtocolError):
            self.close_code, self.close_reason = ending.close_code, ending.code
            return Error(code=ending.code, message=ending.message, fix=ending.fix)
        self.close_code = _CLOSE_CODES.get(closed.reason, 1000)
        return closed

    def _say(self, event: Event) -> None:
        self._metrics.event(event)
        self.outbox.put(discreet(event))


def _token() -> str:
    return secrets.token_urlsafe(16)

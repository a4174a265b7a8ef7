"""What the server needs of a runtime and of its streams, and the bounds it works within."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from edge_runtime.audio.ring import Samples
from edge_runtime.events import Event


class Stream(Protocol):
    """One session of the runtime; iterating gives its events, `closed` last."""

    async def feed(self, pcm: Samples) -> None:
        """Take in 16 kHz mono float32 samples; waits while there is no room."""

    def offer(self, pcm: Samples) -> None:
        """Take in live samples now, at the cost of the oldest."""

    def flush(self) -> None:
        """Ask for a final now."""

    def stop(self, reason: str = "stop") -> None:
        """No more audio: finals, then `closed` with the reason."""

    def __aiter__(self) -> AsyncIterator[Event]: ...


class Named(Protocol):
    """A device, as far as its name goes."""

    @property
    def name(self) -> str: ...


class Runtime(Protocol):
    """A loaded model that opens streams, or several of which the first is the default."""

    @property
    def model(self) -> str: ...

    @property
    def models(self) -> Mapping[str, Runtime]:
        """All that sessions may choose, by name; the default is one of them."""

    @property
    def languages(self) -> Sequence[str]:
        """What the model understands, by ISO 639-1 codes."""

    @property
    def tasks(self) -> Sequence[str]:
        """What the model makes of speech: "transcribe", and "translate" where it can."""

    @property
    def device(self) -> Named: ...

    @property
    def fallback(self) -> str | None: ...

    @property
    def lost(self) -> str | None:
        """Why nothing is decoded any more."""

    @property
    def about(self) -> Mapping[str, Any]:
        """What more `/healthz` tells, by its keys."""

    async def prove(self) -> None:
        """Return once all that computes has come through with something; never if it is stuck."""

    async def leave(self, why: str) -> None:
        """Give up the lanes that there are, which hang; returns once others do their work."""

    def serving(self) -> AbstractAsyncContextManager[Any]:
        """Work on streams inside this context."""

    def open(self, options: Any) -> Stream:
        """Raises `ServerFull`."""


@dataclass(frozen=True)
class Limits:
    """How long the server waits for a client, and how much it keeps for it.

    Seconds: `hello` until the first message, `blocked` while a client reads nothing,
    `linger` for the answer to a close, `grace` for finals at shutdown, and `leave` then for
    connections to close. Events: `waiting` for a socket, `kept` for a replay. Bytes:
    `message`, the most that is read of one message, so that one beyond the configured bound
    is answered and not cut off; `piece`, the most that is decoded at a time on the event loop.
    """

    hello: float = 10.0
    blocked: float = 30.0
    linger: float = 5.0
    grace: float = 3.5
    leave: float = 0.5
    waiting: int = 2000
    kept: int = 1000
    message: int = 16 << 20
    piece: int = 1 << 16

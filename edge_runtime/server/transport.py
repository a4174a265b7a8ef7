"""What a line needs of a connection, of whatever kind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from edge_runtime.dialects import Wire
from edge_runtime.errors import ProtocolError

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Message:
    """What came in: the bytes of a text, or binary ones."""

    data: bytes
    binary: bool


class Transport(Protocol):
    """Where a line's messages come from and go to."""

    async def receive(self, seconds: float | None) -> Message | None:
        """The next message, None once the client has gone.

        Raises `asyncio.TimeoutError` after `seconds`, `ProtocolError` for what is no message.
        """

    async def send(self, wire: Wire) -> None:
        """Send a message; waits while none is taken. Raises `ConnectionError`."""

    async def close(self, code: int, reason: str) -> bool:
        """Close; true where the client answered, so has everything that was sent before."""


def too_big(size: int, most: int) -> ProtocolError:
    """What is said of a message that is longer than is taken."""
    return ProtocolError(
        "too_big",
        f"a message of {size} bytes; at most {most} are taken",
        "Send audio in smaller messages: 100 ms each is a good size.",
        1009,
    )


async def within(seconds: float | None, work: Coroutine[Any, Any, _Result]) -> _Result:
    """Its result; after `seconds` it is cancelled, and `asyncio.TimeoutError` raised.

    Not `asyncio.wait_for`, which before Python 3.12 may swallow a cancellation.
    """
    task = asyncio.create_task(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
    if not done:
        await asyncio.gather(task, return_exceptions=True)
        raise asyncio.TimeoutError
    return task.result()


async def apart(work: Coroutine[Any, Any, Any], seconds: float) -> None:
    """Do it for so long at most, in a task of its own.

    A sender that was cancelled while it waited for room leaves the connection with a
    cancelled future; whoever waits for room next is cancelled as well. Not we.
    """
    task = asyncio.create_task(work)
    await asyncio.wait({task}, timeout=seconds)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

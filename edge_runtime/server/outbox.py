"""What one session says on its way out: numbered when taken, kept for a replay."""

from __future__ import annotations

import asyncio
import time
from collections import deque

import msgspec

from edge_runtime.dialects import Said
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Partial, Ready


class Outbox:
    """A bounded queue between a session and its socket.

    A partial that waits gives way to a newer one of its segment. Everything else is kept;
    with more than `waiting` events `full` is set, and whatever comes then is lost.
    The last `kept` events that were taken can be taken again after `rewind`.
    """

    def __init__(self, waiting: int, kept: int) -> None:
        self.full = asyncio.Event()
        self._limit = waiting
        self._waiting: deque[tuple[Said, float]] = deque()
        self._kept: deque[tuple[Said, float]] = deque(maxlen=kept)
        self._some = asyncio.Event()
        self._seq = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, event: Said) -> None:
        """Append an event, or an answer; its `seq` is given later."""
        if self.full.is_set():
            return
        if isinstance(event, Partial):
            self._drop_partial(event.segment)
        self._waiting.append((msgspec.structs.replace(event, seq=0), time.monotonic()))
        self._some.set()
        if len(self._waiting) > self._limit:
            self.full.set()

    async def take(self) -> tuple[Said, float]:
        """The next event, numbered, and when it was put (monotonic seconds); waits for one."""
        while not self._waiting:
            self._some.clear()
            await self._some.wait()
        event, made = self._waiting.popleft()
        if not event.seq:
            self._seq += 1
            event = msgspec.structs.replace(event, seq=self._seq)
        self._kept.append((event, made))
        return event, made

    def rewind(self, last_seq: int) -> None:
        """Take again what follows `last_seq`; raises `ProtocolError` where that is not kept."""
        again = [item for item in self._kept if item[0].seq > last_seq]
        if (
            self.full.is_set()
            or not 0 <= last_seq <= self._seq
            or (len(again) < self._seq - last_seq)
        ):
            raise ProtocolError(
                "resume_gone",
                f"the events after {last_seq} are not kept any more",
                "Start a new session.",
            )
        while self._kept and self._kept[-1][0].seq > last_seq:
            self._kept.pop()
        # the client has just been sent a newer `ready`
        again = [item for item in again if not isinstance(item[0], Ready)]
        self._waiting.extendleft(reversed(again))
        self._some.set()

    def _drop_partial(self, segment: int) -> None:
        for index in range(len(self._waiting) - 1, -1, -1):
            event = self._waiting[index][0]
            if isinstance(event, Partial) and event.segment == segment and not event.seq:
                del self._waiting[index]
                return

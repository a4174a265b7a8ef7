"""A session on the event loop: audio goes in and waits for room, events come out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

import msgspec

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.decode.segments import Tally
from edge_runtime.decode.update import Purpose
from edge_runtime.errors import EdgeRuntimeError, ServerFull
from edge_runtime.events import Event, Overrun, Partial
from edge_runtime.events import Warning as WarningEvent
from edge_runtime.session import Session

_BLOCK = RATE // 5
"""Samples written at once: small against the ring, so that waiting for room is smooth."""


class Stream:
    """One client's stream. All methods belong to the event loop's thread.

    Iterating gives the events, numbered from 1, and ends after `Closed`; where there was no
    memory for its audio, it raises `ServerFull` instead. A reader that is late finds of several
    partials in a row only the newest.
    """

    def __init__(self, session: Session, slot: int, changed: Callable[[], None]) -> None:
        self.session = session
        self.slot = slot
        self.served_at = 0.0
        self.wanted_at: float | None = None
        self.counted = Tally()
        self._changed = changed
        self._events: deque[Event] = deque()
        self._readable = asyncio.Event()
        self._moved = asyncio.Event()
        self._controls: deque[str] = deque()
        self._seq = 0
        self._warned: set[str] = set()
        self._failure: ServerFull | None = None

    # -- for clients

    async def feed(self, samples: Samples) -> None:
        """Take in 16 kHz mono float32 samples, waiting while there is no room for them."""
        for start in range(0, len(samples), _BLOCK):
            block = samples[start : start + _BLOCK]
            while self._controls or self.session.room < len(block):
                if self.session.closed:
                    return
                self._moved.clear()
                await self._moved.wait()
            self._take_in(block)
            self._changed()

    def offer(self, samples: Samples) -> None:
        """Take in samples of a live source at once; without room the oldest audio goes."""
        for start in range(0, len(samples), _BLOCK):
            self._take_in(samples[start : start + _BLOCK])
        self._changed()

    def _take_in(self, block: Samples) -> None:
        try:
            self.put(self.session.feed(block))
        except ServerFull as error:
            self._failure = error
            self.session.abandon("error")
            self._readable.set()

    def flush(self) -> None:
        """Ask for a final of what was fed so far; `Flushed` follows it."""
        self._controls.append("flush")
        self._changed()

    def stop(self, reason: str = "stop") -> None:
        """No more audio: finals, then `Closed` with this reason."""
        self._controls.append(reason)
        self._changed()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._failure is not None:
                raise self._failure
            if self.session.closed:
                raise StopAsyncIteration
            self._readable.clear()
            await self._readable.wait()
        self._seq += 1
        return msgspec.structs.replace(self._events.popleft(), seq=self._seq)

    # -- for the runtime

    def put(self, events: list[Event]) -> None:
        """Queue events for the reader; whoever waits for room looks again."""
        for event in events:
            last = self._events[-1] if self._events else None
            if isinstance(event, Partial) and isinstance(last, Partial):
                self._events.pop()
            elif isinstance(event, Overrun) and isinstance(last, Overrun):
                self._events[-1] = Overrun(dropped_ms=event.dropped_ms + last.dropped_ms)
                continue
            self._events.append(event)
        if events:
            self._readable.set()
        self._moved.set()

    def wants(self, now: float) -> Purpose | None:
        """What the device should do for it next; since when it wants anything is noted."""
        wanted = self.session.wants
        if wanted is None:
            self.wanted_at = None
        elif self.wanted_at is None:
            self.wanted_at = now
        return wanted

    def served(self, now: float) -> float:
        """A lane takes what it wants; gives since when it wanted anything."""
        wanted_at = now if self.wanted_at is None else self.wanted_at
        self.served_at, self.wanted_at = now, None
        return wanted_at

    def passed_over(self, wanted_at: float) -> None:
        """What a lane took of it, which was wanted since then, was not served."""
        self.wanted_at = wanted_at
        self.served_at = min(self.served_at, wanted_at)

    def warn(self, error: EdgeRuntimeError) -> None:
        """Tell the reader of an error: once for each code, until `relieved`."""
        if error.code not in self._warned:
            self._warned.add(error.code)
            self.put([WarningEvent(code=error.code, message=str(error))])

    def relieved(self) -> None:
        """An update went well: the next error is news again."""
        self._warned.clear()

    def control(self) -> None:
        """Carry out what was asked for, once all the audio before it has been heard."""
        while self._controls and not self.session.due:
            asked = self._controls.popleft()
            self.put(self.session.flush() if asked == "flush" else self.session.stop(asked))

    @property
    def live(self) -> bool:
        """Somebody speaks into it."""
        return self.session.options.live

    @property
    def finished(self) -> bool:
        """Nothing more will come of it, read or not."""
        return self.session.closed

"""Every guest of the server, and those whose client vanished and may come back."""

from __future__ import annotations

import asyncio
from typing import Protocol

from edge_runtime.errors import ProtocolError
from edge_runtime.events import Resume
from edge_runtime.metrics import Metrics
from edge_runtime.server.guest import Guest


class Line(Protocol):
    """A socket that serves a guest."""

    async def give_up(self) -> None:
        """Let go of the guest: another socket serves it. Returns when nothing is under way."""


class Parking:
    """Guests: served by a line, or parked for `seconds` and then finalised.

    A guest is asked for by its token, which is good once: whoever has come back gets another. The
    one before stays good until the client has said something, as it may not have got the new one.
    """

    def __init__(self, seconds: float, metrics: Metrics) -> None:
        self._seconds = seconds
        self._metrics = metrics
        self._guests: dict[Guest, Line | None] = {}
        self._tokens: dict[str, Guest] = {}
        self._spent: dict[Guest, list[str]] = {}
        self._parked: dict[Guest, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._guests)

    @property
    def waiting(self) -> int:
        """How many are parked."""
        return len(self._parked)

    def admit(self, guest: Guest, line: Line) -> None:
        """A new guest, served by `line`."""
        self._guests[guest] = line
        self._tokens[guest.token] = guest

    def dismiss(self, guest: Guest) -> None:
        """The guest's client has its last event."""
        self.heard(guest)
        self._guests.pop(guest, None)
        self._tokens.pop(guest.token, None)

    def heard(self, guest: Guest) -> None:
        """Its client said something, so it has its newest token."""
        for token in self._spent.pop(guest, ()):
            del self._tokens[token]

    def leave(self, guest: Guest, line: Line) -> None:
        """The client of `line` vanished: park its guest if it asked for that, else finalise it."""
        if self._guests.get(guest) is not line:
            return
        self._guests[guest] = None
        park = guest.parks and self._seconds > 0
        task = asyncio.create_task(self._expire(guest, self._seconds if park else 0.0))
        if park:
            self._metrics.parked(1)
            self._parked[guest] = task
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def take(self, resume: Resume, line: Line, owner: str) -> Guest:
        """The guest of a token, from now on served by `line`; its outbox is rewound.

        `owner` is the hash of the key that asks for it.

        Raises `ProtocolError` where the token is unknown, spent, or of another key, or the
        events are not kept.
        """
        guest = self._tokens.get(resume.token)
        if guest is None or not guest.parks or guest.owner != owner:
            raise ProtocolError(
                "resume_gone",
                "no session of that token is parked",
                "Start a new session; to have one parked, start it with an empty resume token, "
                f"and come back within {self._seconds:g} s, with the newest token and the same "
                "key.",
            )
        before, self._guests[guest] = self._guests[guest], line
        self._unpark(guest)
        if before is not None:
            await before.give_up()
        try:
            guest.outbox.rewind(resume.last_seq)
        except ProtocolError:
            self.leave(guest, line)
            raise
        guest.forget_rest()
        self._renew(guest)
        return guest

    def _renew(self, guest: Guest) -> None:
        """Another token; a third one takes the first away."""
        spent = self._spent.setdefault(guest, [])
        spent.append(guest.token)
        while len(spent) > 1:
            del self._tokens[spent.pop(0)]
        guest.renew()
        self._tokens[guest.token] = guest

    async def finish(self, grace: float) -> None:
        """Finalise every guest and wait, `grace` seconds at most, until all are over."""
        guests = list(self._guests)
        for guest in guests:
            self._unpark(guest)
        ends = [asyncio.create_task(self._shut(guest)) for guest in guests]
        if ends:
            _, late = await asyncio.wait(ends, timeout=grace)
            for task in late:
                task.cancel()
        for guest in guests:
            await guest.abandon()

    async def _shut(self, guest: Guest) -> None:
        await guest.finish("shutdown")
        await guest.over.wait()

    async def _expire(self, guest: Guest, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self._parked.pop(guest, None) is not None:
            self._metrics.parked(-1)
        self.dismiss(guest)
        await guest.finish("vanished")
        await guest.over.wait()

    def _unpark(self, guest: Guest) -> None:
        task = self._parked.pop(guest, None)
        if task is not None:
            task.cancel()
            self._metrics.parked(-1)

"""One connection of one guest: a task that reads, a task that writes, and how both end."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal

from edge_runtime.dialects import Act, Answer, Dialect, Said
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Closed, Error, Flush, Gate, Stop
from edge_runtime.server.client import Client
from edge_runtime.server.guest import Guest
from edge_runtime.server.outside import discreet
from edge_runtime.server.state import State
from edge_runtime.server.transport import Transport, apart, too_big, within


class Line:
    """A connection whose messages a dialect translates."""

    def __init__(
        self, transport: Transport, state: State, dialect: Dialect, client: Client | None = None
    ) -> None:
        """`client` is who opened the connection, where that is known."""
        self.dialect = dialect
        self.client = client or Client()
        self._transport = transport
        self._state = state
        self._given_up = asyncio.Event()
        self._released = asyncio.Event()
        self._stuck = asyncio.Event()
        self._stopped = False  # the client asked for the end

    @property
    def patience(self) -> float:
        """Seconds that a client may be silent."""
        return self.dialect.silence or self._state.config.serving.idle_seconds

    async def receive(self, seconds: float | None) -> list[Act] | None:
        """What the next message asks for, None once the client has gone.

        Raises `ProtocolError`, and `asyncio.TimeoutError` after `seconds`.
        """
        message = await self._transport.receive(seconds)
        if message is None:
            return None
        size = len(message.data)
        self._state.metrics.received(size)
        most = self._state.config.serving.max_message_bytes
        if size > most:
            raise too_big(size, most)
        if message.binary:
            return self.dialect.hear(message.data)
        return self.dialect.read(message.data)

    async def send(self, said: Said, made: float) -> None:
        """Send what was said at `made` (monotonic seconds); waits while nothing is taken."""
        size = 0
        for wire in self.dialect.write(said):
            await self._transport.send(wire)
            size += len(wire.encode() if isinstance(wire, str) else wire)
        waited = time.monotonic() - made
        self._state.metrics.sent(said, size, waited)
        self._state.metrics.dialects.sent(self.dialect.name, said, waited)

    async def answer(self, said: Answer) -> None:
        """Send what was said before there is a session; raises `ConnectionError`."""
        try:
            await within(self._state.limits.blocked, self.send(said, time.monotonic()))
        except asyncio.TimeoutError:
            await self._shake_off()
            raise ConnectionResetError("the client does not read") from None

    async def refuse(self, error: ProtocolError) -> None:
        """Say what is wrong before a session begins, and close."""
        event = discreet(Error(seq=1, code=error.code, message=error.message, fix=error.fix))
        await apart(self.send(event, time.monotonic()), self._state.limits.linger)
        await self._transport.close(error.close_code, error.code)

    async def give_up(self) -> None:
        """Let go of the guest: another connection serves it. Returns when nothing is under way."""
        self._given_up.set()
        await self._released.wait()

    def release(self) -> None:
        """The guest, if there was one, is not touched any more."""
        self._released.set()

    async def serve(self, guest: Guest, acts: list[Act]) -> bool:
        """Carry audio in and events out until the session is over or the client has gone.

        `acts` are what was asked for together with the session. True where the client may
        begin another session on the connection: else it is closed.
        """
        end = await self._carry(guest, acts)
        self.release()
        if end == "over" and self._stopped and self.dialect.again and guest.close_code == 1000:
            self._state.parking.dismiss(guest)
            return True
        if end == "given up":
            await self._transport.close(1001, "resumed elsewhere")
        elif end == "slow":
            await self._shake_off()
        elif end == "over" and await self._transport.close(guest.close_code, guest.close_reason):
            self._state.parking.dismiss(guest)
        return False

    async def _carry(
        self, guest: Guest, acts: list[Act]
    ) -> Literal["over", "given up", "slow", "gone"]:
        reading = asyncio.create_task(self._read(guest, acts))
        writing = asyncio.create_task(self._write(guest))
        given_up = asyncio.create_task(self._given_up.wait())
        stuck = asyncio.create_task(self._stuck.wait())
        full = asyncio.create_task(guest.outbox.full.wait())
        ends: set[asyncio.Task[Any]] = {writing, given_up, stuck, full}
        try:
            await asyncio.wait({reading, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if not any(task.done() for task in ends):
                ending = reading.result()
                if ending is None:
                    return "gone"
                self._stopped = ending == "stop"
                await guest.finish(ending)
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if given_up.done():
                return "given up"
            if not writing.done():
                return "slow"
            writing.result()
            return "over"
        except ConnectionError:
            return "gone"  # noticed when writing
        finally:
            for task in ends:
                task.cancel()
            await self._stop(guest, reading)
            await asyncio.gather(*ends, return_exceptions=True)

    async def _read(self, guest: Guest, acts: list[Act]) -> str | ProtocolError | None:
        """Do what is asked; gives why the session ends, or None when the client has gone."""
        idle = None if guest.start.source else self.patience
        asked: list[Act] | None = acts
        try:
            while asked is not None:
                for act in asked:
                    if isinstance(act, bytes):
                        await self.client.budget.spend(await guest.hear(act))
                    elif isinstance(act, Answer):
                        guest.outbox.put(act)
                    elif isinstance(act, Flush):
                        await guest.flush()
                    elif isinstance(act, Gate):
                        await guest.gate(act)
                    else:
                        assert isinstance(act, Stop), "one session a connection"
                        return "stop"
                asked = await self._next(guest, idle)
                self._state.parking.heard(guest)
        except ProtocolError as error:
            return error
        except asyncio.TimeoutError:
            return self.dialect.silent() or "idle"
        return None

    async def _next(self, guest: Guest, idle: float | None) -> list[Act] | None:
        """What is asked next; a lull before it flushes."""
        if self.dialect.lull is not None:
            try:
                return await self.receive(self.dialect.lull)
            except asyncio.TimeoutError:
                await guest.flush()
        return await self.receive(idle)

    async def _write(self, guest: Guest) -> None:
        """Until the last event is out."""
        loop = asyncio.get_running_loop()
        said: Said | None = None
        while not isinstance(said, (Closed, Error)):
            said, made = await guest.outbox.take()
            # not `wait_for`, which before Python 3.12 may swallow a cancellation
            timer = loop.call_later(self._state.limits.blocked, self._stuck.set)
            try:
                await self.send(said, made)
            finally:
                timer.cancel()

    async def _stop(self, guest: Guest, reading: asyncio.Task[Any]) -> None:
        """End reading; what is on its way into a stream gets there, so `next_sample` is true."""
        if reading.done():
            return
        if guest.over.is_set():
            reading.cancel()
        else:
            async with guest.listening:
                reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    async def _shake_off(self) -> None:
        """Close on a client that does not read."""
        event = Error(
            code="slow_client",
            message="the client does not read its events",
            fix="Read events while sending audio; start with partials false for fewer.",
        )
        self._state.metrics.event(event)
        await apart(self.send(event, time.monotonic()), 0.1)
        await self._transport.close(1008, event.code)

"""One WebSocket of one guest: a task that reads, a task that writes, and how both end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Literal

from aiohttp import WSMsgType, web

from edge_runtime.errors import ProtocolError
from edge_runtime.events import AnyRequest, Closed, Error, Event, Flush, Start, encode
from edge_runtime.server import requests
from edge_runtime.server.guest import Guest
from edge_runtime.server.state import State

Message = bytes | AnyRequest | None
"""Audio, a request, or that the client has gone."""


class Line:
    """A prepared socket; `request` is the HTTP request it came from."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request, state: State) -> None:
        self._socket = socket
        self._request = request
        self._state = state
        self._given_up = asyncio.Event()
        self._released = asyncio.Event()
        self._stuck = asyncio.Event()

    async def receive(self, seconds: float | None) -> Message:
        """The next message; raises `ProtocolError`, and `asyncio.TimeoutError` after `seconds`."""
        message = await self._socket.receive(timeout=seconds)
        if message.type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
            return None
        size = len(message.data)
        self._state.metrics.received(size)
        most = self._state.config.serving.max_message_bytes
        if size > most:
            raise ProtocolError(
                "too_big",
                f"a message of {size} bytes; at most {most} are taken",
                "Send audio in smaller messages: 100 ms each is a good size.",
                1009,
            )
        data: bytes = message.data
        return data if message.type is WSMsgType.BINARY else requests.read(data)

    async def send(self, event: Event, made: float) -> None:
        """Send an event that was made at `made` (monotonic seconds); waits while none is taken."""
        data = encode(event)
        await self._socket.send_str(data.decode())
        self._state.metrics.sent(event, len(data), time.monotonic() - made)

    async def refuse(self, error: ProtocolError) -> None:
        """Say what is wrong before a session begins, and close."""
        event = Error(seq=1, code=error.code, message=error.message, fix=error.fix)
        await self._apart(self.send(event, time.monotonic()), self._state.limits.linger)
        await self._close(error.close_code, error.code)

    async def give_up(self) -> None:
        """Let go of the guest: another socket serves it. Returns when nothing is under way."""
        self._given_up.set()
        await self._released.wait()

    def release(self) -> None:
        """The guest, if there was one, is not touched any more."""
        self._released.set()

    async def serve(self, guest: Guest) -> None:
        """Carry audio in and events out until the session is over or the client has gone."""
        end = await self._carry(guest)
        self.release()
        if end == "given up":
            await self._close(1001, "resumed elsewhere")
        elif end == "slow":
            await self._shake_off()
        elif end == "over" and await self._close(guest.close_code, ""):
            self._state.parking.dismiss(guest)

    async def _carry(self, guest: Guest) -> Literal["over", "given up", "slow", "gone"]:
        reading = asyncio.create_task(self._read(guest))
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

    async def _read(self, guest: Guest) -> str | ProtocolError | None:
        """Take in messages; gives why the session ends, or None when the client has gone."""
        idle = None if guest.start.source else self._state.config.serving.idle_seconds
        try:
            while True:
                message = await self.receive(idle)
                if isinstance(message, bytes):
                    await guest.hear(message)
                elif isinstance(message, Flush):
                    await guest.flush()
                elif isinstance(message, Start):
                    return ProtocolError(
                        "already_started",
                        "a second start message",
                        "Open another connection for another session.",
                    )
                else:
                    return message if message is None else "stop"
        except ProtocolError as error:
            return error
        except asyncio.TimeoutError:
            return "idle"

    async def _write(self, guest: Guest) -> None:
        """Until the last event is out."""
        loop = asyncio.get_running_loop()
        event: Event | None = None
        while not isinstance(event, (Closed, Error)):
            event, made = await guest.outbox.take()
            # not `wait_for`, which before Python 3.12 may swallow a cancellation
            timer = loop.call_later(self._state.limits.blocked, self._stuck.set)
            try:
                await self.send(event, made)
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
        await self._apart(self.send(event, time.monotonic()), 0.1)
        await self._close(1008, event.code)

    async def _close(self, code: int, reason: str) -> bool:
        """Close with `code`; true where the client answered, so has everything sent before."""
        linger = self._state.limits.linger
        await self._apart(self._socket.close(code=code, message=reason.encode()), 2 * linger)
        if self._socket.close_code not in {None, 1006}:
            return True
        for _ in range(10):  # a client that begins to read finds out why
            transport = self._request.transport
            if transport is None or not transport.get_write_buffer_size():
                break
            await asyncio.sleep(linger / 10)
        if transport is not None:
            transport.abort()
        return False

    @staticmethod
    async def _apart(work: Coroutine[Any, Any, Any], seconds: float) -> None:
        """Do it for so long at most, in a task of its own.

        A sender that was cancelled while it waited for room leaves the connection with a
        cancelled future; whoever waits for room next is cancelled as well. Not we.
        """
        task = asyncio.create_task(work)
        await asyncio.wait({task}, timeout=seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

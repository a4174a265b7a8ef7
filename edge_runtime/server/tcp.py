"""Plain TCP connections, for dialects that are spoken on neither HTTP nor WebSockets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket as sockets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from aiohttp import web

from edge_runtime import dialects
from edge_runtime.dialects import Asked, Framed, Wire
from edge_runtime.errors import ProtocolError
from edge_runtime.server.address import is_local, listen
from edge_runtime.server.base import Limits
from edge_runtime.server.caller import Caller
from edge_runtime.server.choice import described
from edge_runtime.server.conversation import converse, turn_away
from edge_runtime.server.guard import GUARD, Guard
from edge_runtime.server.line import Line
from edge_runtime.server.reception import ready
from edge_runtime.server.state import STATE, State
from edge_runtime.server.transport import Message, apart, too_big, within

_log = logging.getLogger(__name__)


class Tcp:
    """A connection as a line's transport; `following` says how long a message is by its line."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        dialect: type[Framed],
        most: int,
        limits: Limits,
    ) -> None:
        """`most` is the bytes of the longest message that is read."""
        self._reader = reader
        self._writer = writer
        self._following = dialect.following
        self._most = most
        self._linger = limits.linger
        self._answered = False

    async def receive(self, seconds: float | None) -> Message | None:
        """The next message, None once the client has gone.

        Raises `asyncio.TimeoutError` after `seconds`, `ProtocolError` for what is no message or
        too long a one, before it is read: the next one is not found then.
        """
        return await within(seconds, self._receive())

    async def _receive(self) -> Message | None:
        try:
            line = await self._reader.readuntil(b"\n")
            following = self._following(line)
            if len(line) + following > self._most:
                raise too_big(len(line) + following, self._most)
            return Message(line + await self._reader.readexactly(following), binary=False)
        except asyncio.LimitOverrunError as error:
            raise too_big(error.consumed, self._most) from None
        except (asyncio.IncompleteReadError, OSError):
            return None

    async def send(self, wire: Wire) -> None:
        """Send a message; waits while none is taken. Raises `ConnectionError`."""
        self._writer.write(wire.encode() if isinstance(wire, str) else wire)
        try:
            await self._writer.drain()
        except OSError as error:
            raise ConnectionResetError(str(error)) from None

    async def close(self, code: int, reason: str) -> bool:
        """Close; true where the client closed, too, so has everything that was sent before."""
        await apart(self._hang_up(), self._linger)
        if not self._answered:
            self._writer.transport.abort()
        return self._answered

    async def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._writer.write_eof()
            # with something unread, a close would tear down what is on its way to the client
            while await self._reader.read(1 << 16):
                pass
            self._answered = True
            self._writer.close()


@dataclass(eq=False)
class Listener:
    """A port of a dialect: its sockets, and the tasks of those who are connected."""

    dialect: type[Framed]
    sockets: list[sockets.socket]
    state: State
    guard: Guard
    _servers: list[asyncio.Server] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> None:
        """Let clients in."""
        for socket in self.sockets:
            server = await asyncio.start_server(
                self._connected, sock=socket, limit=self.dialect.line
            )
            self._servers.append(server)

    async def stop(self) -> None:
        """Let nobody in any more."""
        for server in self._servers:
            server.close()

    async def finish(self) -> None:
        """Wait for those whose session is over to hang up, then break off the others."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.state.limits.leave)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        socket = writer.get_extra_info("socket")
        peer = writer.get_extra_info("peername")
        try:
            if peer is None:
                return  # gone as it came
            # a peer that lost its power is noticed, as `address.listen` has it
            socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_KEEPALIVE, 1)
            await self._converse(reader, writer, str(peer[0]))
        except OSError:
            pass
        except Exception:  # noqa: BLE001  # one client's trouble is nobody else's
            _log.exception("a connection of %s failed", self.dialect.name)
        finally:
            # what was sent is on its way by now, or nobody takes it
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()
            writer.close()

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> None:
        state = self.state
        config = state.config
        most = config.serving.max_message_bytes
        transport = Tcp(reader, writer, self.dialect, most, state.limits)
        try:
            clients = config.dialects.listed_clients
            with self.guard.visit(address, self.dialect.name, clients):
                client = self.guard.client(Caller(address, is_local(address)))
                await converse(transport, state, self.dialect(described(ready(state))), client)
        except ProtocolError as error:
            await turn_away(Line(transport, state, self.dialect(Asked())), error, state)


@contextlib.asynccontextmanager
async def plain_ports(main: web.Application) -> AsyncIterator[list[Listener]]:
    """Listen inside the context for dialects that need no HTTP; raises `PortTaken`."""
    state, guard = main[STATE], main[GUARD]
    listeners: list[Listener] = []
    async with contextlib.AsyncExitStack() as stack:
        for port, dialect in dialects.streams(state.config.dialects).items():
            bound = listen(_host(state, guard, port), port)
            for socket in bound:
                stack.callback(socket.close)
            listener = Listener(dialect, bound, state, guard)
            stack.push_async_callback(listener.finish)
            stack.push_async_callback(listener.stop)
            await listener.start()
            listeners.append(listener)
        yield listeners


def _host(state: State, guard: Guard, port: int) -> str:
    """The server's address, unless nobody else would be let in by it."""
    host = state.config.serving.host
    if is_local(host):
        return host
    if not state.config.dialects.listed_clients and guard.needs_keys:
        _log.warning(
            "port %d is for this machine alone: its protocol carries no key. Name the machines "
            "that may use it without one in wyoming_clients of [dialects]",
            port,
        )
        return "127.0.0.1"
    _log.warning("audio can be read on its way to port %d: its protocol has no TLS", port)
    return host

"""A WebSocket as a line's transport: messages in, messages out, and a close that is answered."""

from __future__ import annotations

import asyncio

from aiohttp import WSMsgType, web

from edge_runtime.dialects import Wire
from edge_runtime.server.base import Limits
from edge_runtime.server.transport import Message, apart


class WebSocket:
    """A prepared socket; `request` is the HTTP request it came from."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request, limits: Limits) -> None:
        self._socket = socket
        self._request = request
        self._linger = limits.linger

    async def receive(self, seconds: float | None) -> Message | None:
        """The next message, None once the client has gone."""
        message = await self._socket.receive(timeout=seconds)
        if message.type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
            return None
        return Message(message.data, message.type is WSMsgType.BINARY)

    async def send(self, wire: Wire) -> None:
        """Send a message; waits while none is taken."""
        if isinstance(wire, str):
            await self._socket.send_str(wire)
        else:
            await self._socket.send_bytes(wire)

    async def close(self, code: int, reason: str) -> bool:
        """Close with `code`; true where the client answered, so has everything sent before."""
        await apart(self._socket.close(code=code, message=reason.encode()), 2 * self._linger)
        if self._socket.close_code not in {None, 1006}:
            return True
        for _ in range(10):  # a client that begins to read finds out why
            transport = self._request.transport
            if transport is None or not transport.get_write_buffer_size():
                break
            await asyncio.sleep(self._linger / 10)
        if transport is not None:
            transport.abort()
        return False

"""A connection from its first message to its last, in whatever dialect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from aiohttp import web

from edge_runtime.dialects import Act, Answer, Asked, Dialect
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Start
from edge_runtime.server.caller import CALLER
from edge_runtime.server.choice import described
from edge_runtime.server.client import Client
from edge_runtime.server.guard import GUARD
from edge_runtime.server.guest import Guest
from edge_runtime.server.line import Line
from edge_runtime.server.reception import admit, welcome
from edge_runtime.server.state import STATE, State
from edge_runtime.server.transport import Transport
from edge_runtime.server.websocket import WebSocket

BEYOND = 10
"""Times the longest message that is taken, up to which one is read to be answered; then the
connection is closed (1009) without a word."""


def handler(
    make: type[Dialect],
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Serves each WebSocket in a dialect of its own; what `make` raises is answered with 400."""

    async def handle(request: web.Request) -> web.StreamResponse:
        state = request.app[STATE]
        try:
            dialect = make(asked(request))
        except ProtocolError as error:
            state.metrics.refused(error.code)
            state.metrics.dialects.refused(make.name, error.code)
            return web.json_response(make.complaint(error), status=400)
        most = min(state.limits.message, BEYOND * state.config.serving.max_message_bytes)
        # text stays bytes, so that we answer what is not UTF-8; captions are too short to compress
        socket = web.WebSocketResponse(
            max_msg_size=most,
            timeout=state.limits.linger,
            compress=False,
            decode_text=False,
            protocols=dialect.protocols,
        )
        await socket.prepare(request)
        client = request.app[GUARD].client(request[CALLER])
        await converse(WebSocket(socket, request, state.limits), state, dialect, client)
        return socket

    return handle


def asked(request: web.Request) -> Asked:
    """What a dialect may know of the request."""
    offered = request.headers.get("Sec-WebSocket-Protocol", "").split(",")
    return replace(
        described(request.app[STATE].runtime),
        query=request.query,
        headers=request.headers,
        protocols=[name.strip() for name in offered if name.strip()],
    )


async def converse(transport: Transport, state: State, dialect: Dialect, client: Client) -> None:
    """Serve one client until its sessions are over or it vanishes; each has a line of its own."""
    again = False
    while not (again and state.closing):
        line = Line(transport, state, dialect, client)
        try:
            again = await _serve(line, state, again)
        except ConnectionError:
            return  # gone before its session was open
        finally:
            line.release()
        if not again:
            return
    await transport.close(1001, "")


async def turn_away(line: Line, error: ProtocolError, state: State) -> None:
    """Say why there is no session, and close."""
    state.metrics.refused(error.code)
    state.metrics.dialects.refused(line.dialect.name, error.code)
    line.release()
    await line.refuse(error)


async def _serve(line: Line, state: State, again: bool) -> bool:
    """One session, from its greeting on; true where another may follow."""
    try:
        guest, acts = await _greet(line, state, again)
    except ProtocolError as error:
        await turn_away(line, error, state)
        return False
    if guest is None:
        return False
    try:
        return await line.serve(guest, acts)
    finally:
        state.parking.leave(guest, line)


async def _greet(line: Line, state: State, again: bool) -> tuple[Guest | None, list[Act]]:
    """The guest that the client asks for, and what it asked for with it.

    None where it vanished, or wants no other session. Answers go out at once: there are no
    events yet.
    """
    dialect = line.dialect
    if dialect.patient:
        welcome(state)  # rather than after its first audio
    idle = line.patience
    patience = idle if dialect.patient or again else state.limits.hello
    acts: list[Act] | None = dialect.hello()
    while acts is not None:
        for index, act in enumerate(acts):
            if isinstance(act, Start):
                return await admit(act, line, state), acts[index + 1 :]
            assert isinstance(act, Answer), "no session is open"
            await line.answer(act)
        try:
            acts = await line.receive(patience)
        except asyncio.TimeoutError:
            if again:
                break
            raise (
                dialect.silent()
                or ProtocolError("start_first", f"no message within {patience:g} s", dialect.begin)
            ) from None
        patience = idle
    return None, []

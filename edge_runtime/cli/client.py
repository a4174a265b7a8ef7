"""A client of `GET /v1/stream`: sends a source, shows the events that come back."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
import msgspec
import numpy as np

from edge_runtime import events
from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.audio.source import Source
from edge_runtime.cli.live import View
from edge_runtime.cli.pump import pump, stopped_by_ctrl_c
from edge_runtime.config import key
from edge_runtime.errors import EdgeRuntimeError, ServerUnreachable


def converse(
    url: str, start: events.Start, source: Source, view: View, *, paced: bool = True
) -> None:
    """Send a source to the server at `url` until it ends or Ctrl-C, and show what it answers.

    `paced` sends each block when a microphone would have recorded it; else the server's
    back-pressure sets the pace. Raises `ServerUnreachable`, the error that the server
    sent, and what the source raises; what was heard before is shown first.
    """
    with view:
        asyncio.run(_converse(url, start, source, view, paced))


async def _converse(url: str, start: events.Start, source: Source, view: View, paced: bool) -> None:
    async with aiohttp.ClientSession() as http:
        try:
            socket = await http.ws_connect(url, max_msg_size=0, headers=key.shown())
        except aiohttp.WSServerHandshakeError as error:
            raise _refused(url, error.status) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ServerUnreachable(
                f"no server answers at {url}: {error}",
                "Start one with `edge-runtime serve`, or give its address with --url.",
            ) from error
        async with socket:
            await socket.send_str(events.encode(start).decode())
            sending = asyncio.create_task(_send(socket, source, paced))
            try:
                await _receive(socket, view)
            finally:
                if not sending.done():
                    sending.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sending


def _refused(url: str, status: int) -> ServerUnreachable:
    fixes = {
        401: key.MISSING,
        429: "Wait a minute, or close other sessions.",
    }
    said = "wants a key, or another one" if status == 401 else f"answers {status}"
    return ServerUnreachable(f"{url} {said}", fixes.get(status, "Check --url."))


async def _receive(socket: aiohttp.ClientWebSocketResponse, view: View) -> None:
    """Show events up to `closed`; raises the server's `error`."""
    failure: EdgeRuntimeError | None = None
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.TEXT:
            continue
        try:
            event = events.decode_event(message.data)
        except msgspec.MsgspecError as error:
            raise ServerUnreachable(
                f"the server speaks another protocol: {error}", "Check --url."
            ) from error
        if isinstance(event, events.Error):
            failure = EdgeRuntimeError(event.message, event.fix)
            continue
        view.show(event)
        if isinstance(event, events.Closed):
            break
    else:
        failure = failure or ServerUnreachable(
            f"the server hung up (close code {socket.close_code})", "Look at its log."
        )
    if failure:
        raise failure


async def _send(socket: aiohttp.ClientWebSocketResponse, source: Source, paced: bool) -> None:
    """The source as 16-bit samples, then `stop`; ends quietly when the server hangs up."""
    loop = asyncio.get_running_loop()
    began, sent = loop.time(), 0

    async def put(block: Samples) -> None:
        nonlocal sent
        sent += len(block)
        if paced:
            await asyncio.sleep(began + sent / RATE - loop.time())
        await socket.send_bytes(_pcm(block))

    hung_up = contextlib.suppress(aiohttp.ClientConnectionError, ConnectionError)
    with hung_up, stopped_by_ctrl_c() as stopping:
        try:
            await pump(source, put, stopping)
        finally:
            await socket.send_str(events.encode(events.Stop()).decode())


def _pcm(block: Samples) -> bytes:
    return np.rint(np.clip(block, -1.0, 1.0) * 32767).astype("<i2").tobytes()

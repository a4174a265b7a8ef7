"""A client of the native protocol that plays a clip and notes when each event arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Literal

import aiohttp
import numpy as np

from edge_runtime import events
from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.bench import energy
from edge_runtime.bench.manifest import Clip
from edge_runtime.bench.take import Arrival, Take
from edge_runtime.config import key
from edge_runtime.errors import EdgeRuntimeError, ServerFull

PIECE = RATE // 10  # 100 ms
FLUSH_SECONDS = 60.0
UNPACED_SECONDS = 900.0
"""The same where minutes of audio wait in sockets between client and server."""

Watch = Callable[[Arrival], None]
After = Literal["silence", "stop", "flush"]


@dataclass(frozen=True)
class Playing:
    """How a clip is played.

    `paced`: piece i of 100 ms is sent 0.1 × (i + 1) seconds after the start, as a
    microphone would have it, on a schedule that does not drift; otherwise as
    fast as the server reads. `after` the last sample: digital silence, then
    `stop`; or `stop`, or `flush` and then `stop`, at once. Paced silence goes on
    until the turn is closed, `patience` seconds at most; unpaced, when the
    client is ahead of the events, it is the endpoint's length and half a second,
    so that what is sent does not depend on timing. The clip is played `repeat`
    times in a row, in messages of `piece` samples.
    """

    paced: bool = True
    partials: bool = True
    words: bool = False
    endpoint_ms: int = 500
    after: After = "silence"
    patience: float = 3.0
    repeat: int = 1
    piece: int = PIECE


class _Listener:
    """Collects events; knows whether a turn is open."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.arrivals: list[Arrival] = []
        self.began = 0.0
        self.open = False
        self.flushed = asyncio.Event()

    async def listen(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        clock = asyncio.get_running_loop().time
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            event = events.decode_event(message.data)
            arrival = Arrival(clock() - self.began, event)
            self.arrivals.append(arrival)
            self._watch(arrival)
            if isinstance(event, events.SpeechStart):
                self.open = True
            elif isinstance(event, events.SpeechEnd):
                self.open = False
            elif isinstance(event, events.Flushed):
                self.flushed.set()
            elif isinstance(event, events.Error):
                kind = ServerFull if event.code == "full" else EdgeRuntimeError
                raise kind(f"the server said: {event.message}", event.fix)
            elif isinstance(event, events.Closed):
                return
        raise EdgeRuntimeError(
            f"the server hung up ({socket.close_code}) before it said closed",
            "Read the server's log.",
        )


async def _pieces(pcm: Samples, playing: Playing, began: float) -> AsyncIterator[bytes]:
    """The audio as 16-bit bytes, each piece when its last sample has been spoken."""
    clock = asyncio.get_running_loop().time
    wire = (np.clip(pcm, -1, 32767 / 32768) * 32768).round().astype("<i2")
    sent = 0
    for _ in range(playing.repeat):
        for start in range(0, len(wire), playing.piece):
            piece = wire[start : start + playing.piece]
            sent += len(piece)
            if playing.paced:
                await asyncio.sleep(max(0.0, began + sent / RATE - clock()))
            yield piece.tobytes()


async def _send(
    socket: aiohttp.ClientWebSocketResponse,
    pcm: Samples,
    playing: Playing,
    listener: _Listener,
) -> None:
    async for piece in _pieces(pcm, playing, listener.began):
        await socket.send_bytes(piece)
    if playing.after == "silence":
        await _silence(socket, pcm, playing, listener)
    elif playing.after == "flush":
        await socket.send_str(events.encode(events.Flush()).decode())
        seconds = FLUSH_SECONDS if playing.paced else UNPACED_SECONDS
        try:
            await asyncio.wait_for(listener.flushed.wait(), seconds)
        except asyncio.TimeoutError:
            raise EdgeRuntimeError(
                f"no `flushed` within {seconds:g} s", "Read the server's log."
            ) from None
    await socket.send_str(events.encode(events.Stop()).decode())


async def _silence(
    socket: aiohttp.ClientWebSocketResponse,
    pcm: Samples,
    playing: Playing,
    listener: _Listener,
) -> None:
    """Digital silence until no turn is open and one still to come would have opened."""
    if not playing.paced:
        samples = playing.endpoint_ms * RATE // 1000 + RATE // 2
        await socket.send_bytes(bytes(2 * samples))
        return
    span = energy.speech(pcm)
    spoken = span.close if span else len(pcm) / RATE
    enough = spoken + playing.endpoint_ms / 1000 + 0.3
    sent, rest = len(pcm), bytes(2 * PIECE)
    end = len(pcm) + int(playing.patience * RATE)
    clock = asyncio.get_running_loop().time
    while sent < end and (listener.open or sent / RATE < enough):
        await asyncio.sleep(max(0.0, listener.began + (sent + PIECE) / RATE - clock()))
        await socket.send_bytes(rest)
        sent += PIECE


def _ignore(_: Arrival) -> None:
    pass


async def play(
    url: str,
    name: str,
    pcm: Samples,
    playing: Playing | None = None,
    watch: Watch = _ignore,
) -> Take:
    """One clip of (samples,) float32 16 kHz audio through the server at `url`.

    `watch` sees every event as it comes. Raises `EdgeRuntimeError` when the
    server answers with an error or hangs up.
    """
    playing = playing or Playing()
    start = events.Start(
        sample_rate=RATE,
        partials=playing.partials,
        words=playing.words,
        endpoint_ms=playing.endpoint_ms,
    )
    listener = _Listener(watch)
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, max_msg_size=0, headers=key.shown()) as socket,
        ):
            await socket.send_str(events.encode(start).decode())
            listener.began = asyncio.get_running_loop().time()
            hearing = asyncio.create_task(listener.listen(socket))
            sending = asyncio.create_task(_send(socket, pcm, playing, listener))
            await _both(hearing, sending)
    except aiohttp.WSServerHandshakeError as error:
        fix = key.MISSING if error.status == 401 else "Check --url."
        raise EdgeRuntimeError(f"{url} answers {error.status}", fix) from None
    except aiohttp.ClientError as error:
        raise EdgeRuntimeError(
            f"no stream at {url}: {error}", "Start `edge-runtime serve`, or leave --url out."
        ) from None
    return Take(name, playing.repeat * len(pcm) / RATE, tuple(listener.arrivals))


async def _both(hearing: asyncio.Task[None], sending: asyncio.Task[None]) -> None:
    """Wait for the end of the events; a failure of either ends both."""
    try:
        await asyncio.wait({hearing, sending}, return_when=asyncio.FIRST_EXCEPTION)
        for task in (hearing, sending):
            if task.done():
                task.result()
    finally:
        for task in (hearing, sending):
            task.cancel()
        await asyncio.gather(hearing, sending, return_exceptions=True)


async def play_clip(url: str, clip: Clip, playing: Playing | None = None) -> Take:
    """`play`, for a clip of the manifest."""
    return await play(url, clip.name, clip.pcm, playing)

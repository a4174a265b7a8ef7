"""Clients that do what a server must survive; each says what was wrong with how it did."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from injection.engine import KINDS, starve
from injection.house import House, abort, finals_lost, rest, send, text, told


@dataclass(frozen=True)
class Spoken:
    """What is said, as 16-bit bytes, and what an undisturbed session writes of it."""

    name: str
    pcm: bytes
    text: str

    def part(self, chance: random.Random) -> bytes:
        """Some of it, from its beginning, whole samples."""
        return self.pcm[: 2 * chance.randrange(1600, len(self.pcm) // 2)]


Fault = Callable[[House, Spoken, random.Random], Awaitable[str]]


async def vanishes(house: House, spoken: Spoken, chance: random.Random) -> str:
    """Gone at a chance point, with or without a wish to come back."""
    parks = {"resume": {"token": "", "last_seq": 0}} if chance.random() < 0.5 else {}
    socket = await house.connect(partials=chance.random() < 0.5, **parks)
    await send(socket, spoken.part(chance))
    await asyncio.sleep(chance.uniform(0, 0.3))
    await abort(socket)
    return ""


async def half_open(house: House, spoken: Spoken, chance: random.Random) -> str:
    """Neither sends nor reads nor closes any more; the house lets go of it after `left`."""
    socket = await house.connect(partials=True)
    house.held.append(socket)
    await send(socket, spoken.part(chance))
    return ""


async def slow_reader(house: House, spoken: Spoken, chance: random.Random) -> str:
    """Reads now and then, and must get all; or not at all, and must be let go of."""
    socket = await house.connect(partials=True)
    if chance.random() < 0.5:
        house.held.append(socket)
        await send(socket, spoken.pcm)
        await socket.send_json({"type": "stop"})
        return ""
    await send(socket, spoken.pcm)
    await socket.send_json({"type": "stop"})
    await asyncio.sleep(chance.uniform(0, 0.5))
    events = await rest(socket)
    await socket.close()
    if not events or events[-1]["type"] != "closed":
        return f"a slow reader's events end with {events[-1:]}"
    return _whole(spoken, events, "a slow reader")


async def malformed(house: House, spoken: Spoken, chance: random.Random) -> str:
    """A broken message, or bytes that are no frame, at a chance point."""
    socket = await house.connect(partials=chance.random() < 0.5)
    async with told(socket) as events:
        await send(socket, spoken.part(chance))
        how = chance.choice(("json", "field", "binary", "frame", "bytes"))
        if how == "json":
            await socket.send_str("{" + chance.choice(("", '"type"', "}{", "\x00")))
        elif how == "field":
            await socket.send_str(json.dumps({"type": "stop", "now": chance.random()}))
        elif how == "binary":
            await socket.send_bytes(bytes(2 << 20))
        else:
            # A reserved opcode, or anything.
            raw = b"\x8b\x80\0\0\0\0" if how == "frame" else os.urandom(64)
            connection = socket._response.connection
            assert connection is not None
            assert connection.transport is not None
            connection.transport.write(raw)
            if how == "bytes":  # they may ask for more than ever comes
                await asyncio.sleep(0.05)
                await abort(socket)
                return ""
        came = await events
    if how in {"frame"}:
        return ""
    if not came or came[-1]["type"] != "error":
        return f"a malformed message ({how}) was answered with {came[-1:]}"
    lost = finals_lost(came)
    return f"turns {lost} before a malformed message have no final" if lost else ""


def engine(kind: str) -> Fault:
    """The engine fails once, at one of the session's updates or at its final."""

    async def fails(house: House, spoken: Spoken, chance: random.Random) -> str:
        partials = chance.random() < 0.7
        socket = await house.connect(partials=partials)
        ready = await socket.receive_json()
        if kind == "memory" and chance.random() < 0.5:
            return await _starves(house, socket, ready["resume"], spoken)
        after = chance.choice((-1, 0, 1, 2)) if partials else chance.choice((-1, 0))
        house.plan.doom(house.stream(ready["resume"]).name, kind, after)
        async with told(socket) as reading:
            await send(socket, spoken.pcm)
            await socket.send_json({"type": "stop"})
            events = await reading
        if not events or events[-1]["type"] != "closed":
            return f"a failed update ({kind}) ended its session with {events[-1:]}"
        lost = finals_lost(events)
        if lost:
            return f"turns {lost} have no final after a failed update ({kind})"
        who = f"a session with a failed update ({kind})"
        if not partials and text(events) != spoken.text:
            return f"{who} got {text(events)!r} for {spoken.text!r}"
        return _whole(spoken, events, who)

    return fails


async def _starves(
    house: House, socket: aiohttp.ClientWebSocketResponse, token: str, spoken: Spoken
) -> str:
    """There is no memory for the session's audio, so it is refused with its first piece."""
    starve(house.stream(token).ring, house.runtime._streams.rings)
    house.plan.met += 1
    async with told(socket) as reading:
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            await send(socket, spoken.pcm)
        events = await reading
    if not events or (events[-1]["type"], events[-1].get("code")) != ("error", "full"):
        return f"a session without memory ended with {events[-1:]}"
    return ""


def _whole(spoken: Spoken, events: list[dict[str, Any]], who: str) -> str:
    """Words that are stable bind the final, so with partials a few may be others."""
    wanted, got = spoken.text.split(), text(events).split()
    if len(got) < 0.8 * len(wanted):
        return f"{who} got {' '.join(got)!r} for {spoken.text!r}"
    return ""


FAULTS: dict[str, Fault] = {
    "vanishes": vanishes,
    "half-open": half_open,
    "slow": slow_reader,
    "malformed": malformed,
    **{kind: engine(kind) for kind in KINDS},
}
"""Those that meet a server in this process."""

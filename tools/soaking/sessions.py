"""Sessions that come and go, and what stays of them."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from edge_runtime import events
from edge_runtime.audio import RATE
from edge_runtime.bench import server
from edge_runtime.bench.client import Playing, play
from edge_runtime.bench.hardware import hardware
from edge_runtime.bench.manifest import Clip, read
from edge_runtime.bench.server import Server
from edge_runtime.errors import EdgeRuntimeError, ServerFull

EVERY = 500
"""Sessions between two looks at the memory."""

SLOPE = 1 << 20
"""Bytes that the server may grow by in 1,000 sessions."""

WARM = 1000
"""Sessions that do not count: pools fill, libraries load what they use first."""

FULL = 40.0
"""Seconds of audio that fill a session's ring."""

SHORT = 3.0
"""Seconds of the longest piece of a clip that is sent."""


@dataclass
class Found:
    """`points`: sessions so far and resident bytes, with nobody there. Bytes."""

    count: int
    together: int
    empty: int = 0
    each: float = 0.0
    """What a session takes whose ring is full."""
    points: list[tuple[int, int]] = field(default_factory=list)
    refused: int = 0
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def slope(self) -> float | None:
        """Bytes in 1,000 sessions, by least squares; None of too few."""
        points = [point for point in self.points if point[0] >= WARM]
        if len(points) < 3:
            return None
        sessions, resident = np.array(points, np.float64).T
        return 1000 * float(np.polyfit(sessions, resident, 1)[0])

    def record(self) -> dict[str, Any]:
        """For a file."""
        return {**asdict(self), "slope": self.slope, "hardware": hardware().record()}


async def weigh(of: Server, together: int, clips: Sequence[Clip]) -> tuple[int, float]:
    """Resident bytes with no session, and what each takes of so many whose rings are full.

    Of silence: what is said takes no more, but for its events.
    """
    wire = bytes(2 * int(FULL * RATE))
    # Whatever is made at the first session of all.
    await play(of.url, "first", clips[0].pcm, Playing(paced=False))
    empty = _resident(of)
    async with aiohttp.ClientSession() as http:
        sockets = []
        for _ in range(together):
            socket = await http.ws_connect(of.url)
            await socket.send_str(events.encode(events.Start(resume=events.Resume(""))).decode())
            sockets.append(socket)
        for first in range(0, len(wire), 4 * RATE):
            piece = wire[first : first + 4 * RATE]
            await asyncio.gather(*(each.send_bytes(piece) for each in sockets))
        await _quiet(of)
        full = _resident(of)
        for socket in sockets:
            await socket.send_str(events.encode(events.Stop()).decode())
        await asyncio.gather(*(_rest(socket) for socket in sockets))
    return empty, (full - empty) / together


async def come_and_go(of: Server, clips: Sequence[Clip], found: Found) -> None:
    """Fill `found`, `found.together` sessions at a time."""
    began, done = time.monotonic(), 0
    while done < found.count:
        numbers = iter(range(done, min(done + EVERY, found.count)))

        async def worker(numbers: Any = numbers) -> None:
            for number in numbers:
                await _one(of, clips, number, found)

        await asyncio.gather(*(worker() for _ in range(found.together)))
        done = min(done + EVERY, found.count)
        await _empty(of)
        found.points.append((done, _resident(of)))
        found.seconds = time.monotonic() - began
        print(f"{done:6} sessions, {found.points[-1][1] / 2**20:.1f} MB", flush=True)


async def _one(of: Server, clips: Sequence[Clip], number: int, found: Found) -> None:
    chance = random.Random(number)
    pcm = chance.choice(clips).pcm[: chance.randrange(RATE // 5, int(SHORT * RATE))]
    playing = Playing(
        paced=False, partials=number % 2 == 0, words=number % 5 == 0, after="stop", piece=RATE
    )
    while True:
        try:
            await play(of.url, "short", pcm, playing)
        except ServerFull:  # a machine that others use may be too slow for so many at once
            found.refused += 1
            await asyncio.sleep(1.0)
            continue
        except (EdgeRuntimeError, OSError) as error:
            found.failed.append(str(error))
        return


def _resident(of: Server) -> int:
    assert of.process is not None
    return of.process.memory() or 0


async def _empty(of: Server) -> None:
    """Return once no session is open."""
    for _ in range(600):
        if not (await asyncio.to_thread(of.health))["sessions"]["open"]:
            return
        await asyncio.sleep(0.05)


async def _quiet(of: Server) -> None:
    """Return once the server takes no more audio in: all that is held back, is."""
    before = -1.0
    while (now := (await asyncio.to_thread(of.scrape)).value(_AUDIO) or 0.0) != before:
        before = now
        await asyncio.sleep(1.0)


_AUDIO = "edge_runtime_audio_seconds_total"


async def _rest(socket: aiohttp.ClientWebSocketResponse) -> None:
    async for _ in socket:
        pass


def main() -> int:
    """The exit code: 1 where memory grows, or a session went wrong."""
    parser = argparse.ArgumentParser(description="Opens and closes thousands of sessions.")
    parser.add_argument("manifest", type=Path, help="clips, as edge-runtime bench takes them")
    parser.add_argument("--count", type=int, default=10_000, help="sessions")
    parser.add_argument("--together", type=int, default=50, help="sessions at a time")
    parser.add_argument("--log", type=Path, default=Path("sessions.json"))
    given = parser.parse_args()
    clips = [clip for clip in read(given.manifest).clean if clip.seconds <= 12]
    found = Found(given.count, given.together)
    options = ["--max-sessions", str(given.together + 2)]
    with server.started([*server.arguments("", "", None), *options]) as ours:
        found.empty, found.each = asyncio.run(weigh(ours, given.together, clips))
        print(f"{found.empty / 2**20:.1f} MB, and {found.each / 2**20:.2f} MB a full session")
        asyncio.run(come_and_go(ours, clips, found))
    given.log.write_text(json.dumps(found.record(), indent=1) + "\n", "utf-8")
    steep = found.slope
    said = "too few to tell" if steep is None else f"{steep / 2**20:+.3f} MB in 1,000 sessions"
    print(f"{said}; {len(found.failed)} went wrong, {found.seconds:.0f} s")
    return int(bool(found.failed) or (steep is not None and steep > SLOPE))


if __name__ == "__main__":
    sys.exit(main())

"""Many microphones at once: clients that speak clip after clip, each at a time of its own."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from edge_runtime import events
from edge_runtime.bench import energy, latency
from edge_runtime.bench.client import Playing, play
from edge_runtime.bench.manifest import Clip
from edge_runtime.bench.percentile import percentile
from edge_runtime.bench.process import machine
from edge_runtime.bench.server import Server
from edge_runtime.bench.take import Arrival, Take
from edge_runtime.errors import EdgeRuntimeError

T = TypeVar("T")

SETTLE = 5.0
"""Seconds that are played before anything counts."""

TAIL = 5.0
"""Seconds that are played on after the last that counts, so that late finals meet full load."""


@dataclass
class Heard:
    """What so many streams met. Latencies in ms; `late` of the finals did not come at all, and
    count with as long as they were waited for.

    `cpu` and `clients` are processor seconds a second, of the server and of the bench itself;
    `others` those of whatever else ran on the machine: the figures are of both.
    """

    streams: int
    seconds: float
    finals: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    late: int = 0
    level: int = 0
    cpu: float | None = None
    clients: float = 0.0
    others: float | None = None
    failed: list[str] = field(default_factory=list)
    rests: list[float] = field(default_factory=list)
    """Seconds from the end of a clip to the beginning of the next one."""
    cut: bool = False
    """Ended by Ctrl-C: what was heard until then."""

    def holds(self, limit: float) -> bool:
        """Whether nobody was refused or cut off, and the p95 is within `limit` ms."""
        p95 = percentile(self.finals, 95)
        return not self.failed and p95 is not None and p95 <= limit

    def record(self) -> dict[str, Any]:
        """For a file: percentiles in ms, processor use in cores."""
        return {
            "streams": self.streams,
            "seconds": self.seconds,
            "finals": len(self.finals),
            "late": self.late,
            **{
                f"{name}.p{q}": percentile(values, q)
                for name, values in (("final", self.finals), ("first", self.firsts))
                for q in (50, 95)
            },
            "level": self.level,
            "cpu": self.cpu,
            "clients_cpu": self.clients,
            "others_cpu": self.others,
            "failed": self.failed,
            "cut": self.cut,
        }


async def together(
    server: Server,
    clips: Sequence[Clip],
    heard: Heard,
    step: Callable[[], None],
    seed: int = 1,
) -> None:
    """Fill `heard` with what `heard.streams` clients meet in `heard.seconds`, after a start.

    Each plays clips in an order of its own over a socket of its own for each, and begins at a
    chance moment of a mean clip. `step` is called every second. What ends within the time counts.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    window = began + SETTLE, began + SETTLE + heard.seconds
    mean = sum(clip.seconds for clip in clips) / len(clips)
    used, all_used = (server.cpu(), time.process_time()), machine()
    async with _tasks() as tasks:
        for number in range(heard.streams):
            delay, mine = order(clips, mean, heard.streams, number, seed)
            client = _Client(server.url, mine, window, heard)
            tasks.append(asyncio.create_task(client.run(delay)))
        while loop.time() < window[1] + TAIL:
            await asyncio.sleep(min(1.0, max(0.0, window[1] + TAIL - loop.time())))
            page = await asyncio.to_thread(server.scrape)
            for task in tasks:
                if task.done():
                    task.result()  # raises: a client never ends by itself
            heard.level = max(heard.level, int(page.value("edge_runtime_load_level") or 0))
            step()
    elapsed, now, all_now = loop.time() - began, server.cpu(), machine()
    heard.clients = (time.process_time() - used[1]) / elapsed
    if used[0] is not None and now is not None:
        heard.cpu = (now - used[0]) / elapsed
        if all_used is not None and all_now is not None:
            ours = heard.cpu + heard.clients
            heard.others = max(0.0, (all_now - all_used) / elapsed - ours)


@contextlib.asynccontextmanager
async def _tasks() -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks: list[asyncio.Task[None]] = []
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def order(
    clips: Sequence[T], mean: float, streams: int, number: int, seed: int = 1
) -> tuple[float, Iterator[T]]:
    """When stream `number` of so many begins, and its clips, one after the other, without an end.

    It begins within a `mean` clip's seconds.
    """
    chance = random.Random(f"{seed}.{streams}.{number}")
    return chance.uniform(0, mean), _shuffled(list(clips), chance)


def _shuffled(clips: list[T], chance: random.Random) -> Iterator[T]:
    while True:
        chance.shuffle(clips)
        yield from clips


class _Client:
    """One microphone."""

    def __init__(
        self,
        url: str,
        clips: Iterator[Clip],
        window: tuple[float, float],
        heard: Heard,
    ) -> None:
        self._url = url
        self._clips = clips
        self._window = window
        self._heard = heard

    async def run(self, delay: float) -> None:
        """Speak until cancelled."""
        await asyncio.sleep(delay)
        for clip in self._clips:
            await self._say(clip)

    async def _say(self, clip: Clip) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        arrivals: list[Arrival] = []
        try:
            await play(self._url, clip.name, clip.pcm, Playing(), arrivals.append)
        except (EdgeRuntimeError, OSError) as error:
            # Refused or cut off: it waited for nothing.
            self._heard.failed.append(str(error))
            await asyncio.sleep(1.0)
        except asyncio.CancelledError:  # played to the end of the time
            self._note(clip, began, arrivals, clock() - began)
            raise
        else:
            self._note(clip, began, arrivals, clock() - began)

    def _note(self, clip: Clip, began: float, arrivals: list[Arrival], took: float) -> None:
        span = energy.speech(clip.pcm)
        if span is None or not self._window[0] <= began + span.close <= self._window[1]:
            return
        take = Take(clip.name, clip.seconds, tuple(arrivals))
        final = latency.final_after(take, span)
        over = any(isinstance(each.event, events.Closed) for each in arrivals)
        # Cut off at the end: a final before the end of speech is not the one that is waited for.
        if not over and (final is None or final < 0):
            self._heard.late += 1
            final = took - span.close
        # Where all was said and nothing is written, nothing was heard: noise, or too faint.
        if final is not None:
            self._heard.finals.append(1000 * final)
        voiced = energy.speech(clip.pcm, energy.VOICED_DB) or span
        first = latency.first_partial_after(take, voiced.onset)
        if first is not None:
            self._heard.firsts.append(1000 * first)
        if over:
            self._heard.rests.append(max(0.0, took - clip.seconds))

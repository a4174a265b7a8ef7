"""Sessions of all kinds, one after the other and beside each other, until there was enough."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edge_runtime import events
from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.bench.client import Playing, play
from edge_runtime.bench.manifest import Clip, Manifest
from edge_runtime.bench.server import Server
from edge_runtime.bench.spent import busy
from edge_runtime.bench.take import Take
from edge_runtime.errors import EdgeRuntimeError, ServerFull
from soaking.state import SPEECH, Reading, State

BLOCK = 60.0
"""Seconds of audio that are put together at a time; a session repeats them."""

MINUTES = (1, 1, 2, 3, 5, 10, 30)
"""How long sessions are."""

PIECES = (RATE // 10, RATE // 2, RATE)
"""Samples of a message: as from a microphone, or from who sends a file."""

AGAIN = 5.0
"""Seconds after which a session that was refused is tried again."""

LOOK = 1.0
"""Seconds between two looks at how much has been fed."""


@dataclass(frozen=True)
class Talk:
    """A session: its audio, of which `spoken` seconds are clips, and how it is played."""

    pcm: Samples
    spoken: float
    playing: Playing


def hour(
    seed: str, clips: Sequence[Clip], noises: Sequence[Clip], *, sparse: bool, longest: int
) -> list[Talk]:
    """Sessions of all kinds, at most `longest` minutes each, that are an hour of audio together."""
    chance = random.Random(seed)
    talks: list[Talk] = []
    left = 60
    while left:
        repeat = min(chance.choice(MINUTES), longest, left)
        left -= repeat
        pcm, spoken = block(chance, clips, noises, sparse)
        playing = Playing(
            paced=False,
            partials=len(talks) % 3 != 2,
            words=chance.random() < 0.3,
            endpoint_ms=chance.choice((300, 500, 500, 1000)),
            after=chance.choice(("stop", "stop", "flush")),
            repeat=repeat,
            piece=chance.choice(PIECES),
        )
        talks.append(Talk(pcm, spoken * repeat, playing))
    return talks


class Feed:
    """One part: a server, `workers` that speak, and a reading every `every` seconds of audio.

    Every hour of audio is the same sessions again, so that the last can be compared with the first.
    """

    def __init__(
        self, server: Server, manifest: Manifest, state: State, every: float, longest: float
    ) -> None:
        self._server = server
        clips = [clip for clip in manifest.clean if clip.seconds <= BLOCK]
        talks = hour(
            state.seed,
            clips,
            manifest.speechless,
            sparse=state.sparse,
            longest=max(1, int(longest / BLOCK)),
        )
        self._next = itertools.cycle(talks)
        self._state = state
        self._every = every
        self._mark = self._now()

    async def run(self, workers: int, until: float, told: Callable[[Reading], None]) -> None:
        """Until the goal is reached, or for `until` seconds; `told` hears every reading."""
        end = time.monotonic() + until
        tasks = [asyncio.create_task(self._worker()) for _ in range(workers)]
        try:
            while not self._enough() and time.monotonic() < end:
                await asyncio.sleep(LOOK)
                for task in tasks:
                    if task.done():
                        task.result()
                fed = (await asyncio.to_thread(self._now))[0] - self._mark[0]
                if fed >= self._every:
                    told(await asyncio.to_thread(self._read))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _enough(self) -> bool:
        return self._state.fed >= self._state.goal

    async def _worker(self) -> None:
        for talk in self._next:
            try:
                take = await self._said(talk)
            except (EdgeRuntimeError, OSError) as error:
                self._state.errors.append(str(error))
                await asyncio.sleep(1.0)
                continue
            self._state.sessions += 1
            self._state.spoken += talk.spoken
            self._state.errors += wrong(take)

    async def _said(self, talk: Talk) -> Take:
        """What came of it, once it is let in: others may keep the machine busy."""
        while True:
            try:
                return await play(self._server.url, "soak", talk.pcm, talk.playing)
            except ServerFull:
                self._state.refused += 1
                await asyncio.sleep(AGAIN)

    def _now(self) -> tuple[float, float, float, float, float]:
        """Seconds of audio, processor seconds, lanes' seconds on updates, these, and the time."""
        page = self._server.scrape()
        return (
            page.value("edge_runtime_audio_seconds_total") or 0.0,
            self._server.cpu() or 0.0,
            *busy(page, "partial", "speculative", "final"),
            time.monotonic(),
        )

    def _read(self) -> Reading:
        before, self._mark = self._mark, self._now()
        audio, cpu, worked, hops, took = (b - a for a, b in zip(before, self._mark, strict=True))
        assert self._server.process is not None
        reading = Reading(
            self._state.parts,
            round(audio, 2),
            round(cpu, 3),
            round(worked, 3),
            int(hops),
            self._server.process.memory() or 0,
            round(took, 2),
        )
        self._state.readings.append(reading)
        return reading


def block(
    chance: random.Random, clips: Sequence[Clip], noises: Sequence[Clip], sparse: bool
) -> tuple[Samples, float]:
    """A block of speech, and the seconds of clips in it; sparse: a clip, and silence or noise."""
    pieces: list[Samples] = []
    spoken = length = 0.0
    while length < BLOCK:
        clip = chance.choice(clips)
        pieces.append(clip.pcm)
        spoken += clip.seconds
        rest = clip.seconds * (1 / SPEECH - 1) if sparse else 0.0
        pieces.append(_rest(chance, noises, rest))
        length += clip.seconds + rest
    return np.concatenate(pieces), spoken


def _rest(chance: random.Random, noises: Sequence[Clip], seconds: float) -> Samples:
    samples = int(np.ceil(seconds * RATE))
    if noises and samples and chance.random() < 0.5:
        return np.resize(chance.choice(noises).pcm, samples)
    return np.zeros(samples, np.float32)


def wrong(take: Take) -> list[str]:
    """Turns without a final, text taken back, warnings."""
    said = [each.event for each in take.arrivals]
    begun = {each.turn for each in said if isinstance(each, events.SpeechStart)}
    lost = begun - {each.turn for each in said if isinstance(each, events.Final)}
    found = [f"turn {turn} has no final" for turn in sorted(lost)]
    found += [
        f"warning {each.code}: {each.message}"
        for each in said
        if isinstance(each, events.Warning) and each.code != "busy"
    ]
    for segment in take.segments():
        with contextlib.suppress(IndexError):
            stable = segment.partials[-1][1].stable
            if segment.final and not segment.final[1].text.startswith(stable):
                found.append(f"a final does not begin with {stable!r}")
    return found

"""Microphones in real time on one runtime: when their finals come, and who was busy with that."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.bench import energy
from edge_runtime.decode.update import Hypothesis
from edge_runtime.events import Final
from edge_runtime.runtime import Options, Runtime
from edge_runtime.runtime.stream import Stream
from edge_runtime.runtime.tracing.base import Untraced

PIECE = RATE // 10
SILENCE = 6 * RATE // 5
"""Behind each clip: the endpoint is in it."""

SETTLE = 3.0
"""Seconds before anything counts."""

LATE = 3.0
"""Seconds that a final is waited for; it counts as so late then."""


@dataclass(frozen=True)
class Said:
    """A clip with silence behind it; speech ends at second `close` of it."""

    pcm: Samples
    close: float

    @classmethod
    def of(cls, pcm: Samples) -> Said | None:
        span = energy.speech(pcm)
        if span is None:
            return None
        return cls(np.concatenate([pcm, np.zeros(SILENCE, np.float32)]), span.close)


class Busy(Untraced):
    """Adds up what the voice detector and the lanes took."""

    def __init__(self) -> None:
        self.ears = 0.0
        self.device = 0.0
        self.updates = 0
        self.rows = 0.0

    def heard(self, began: float, ended: float, frames: int) -> None:
        self.ears += ended - began

    def merged(self, hypothesis: Hypothesis, wanted: float, began: float, ended: float) -> None:
        self.device += hypothesis.cost.share
        self.updates += 1
        self.rows += hypothesis.cost.rows


@dataclass
class Heard:
    """What so many met: seconds from the end of speech to the final. Shares are of a second."""

    streams: int
    finals: list[float] = field(default_factory=list)
    missed: int = 0
    loop: float = 0.0
    process: float = 0.0
    ears: float = 0.0
    device: float = 0.0
    updates: float = 0.0
    rows: float = 0.0
    lag: float = 0.0
    level: int = 0

    def p(self, q: float) -> float:
        return float(np.percentile(self.finals, q)) if self.finals else float("inf")

    def note(self) -> str:
        """Who was busy: the one that is near 1 (lanes: near their number) is the limit."""
        return (
            f"{len(self.finals)} finals, {self.missed} missed; {self.updates:.0f} updates/s in "
            f"batches of {self.rows:.1f}; busy: event loop {self.loop:.2f}, detector "
            f"{self.ears:.2f}, lanes {self.device:.2f}, process {self.process:.2f} cores; loop "
            f"late by {1e3 * self.lag:.0f} ms (p95), ladder {self.level}"
        )


async def speak(
    runtime: Runtime, busy: Busy, clips: Sequence[Said], streams: int, seconds: float
) -> Heard:
    """So many for `seconds` after a start; the runtime serves, and `busy` traces it."""
    heard = Heard(streams)
    began = time.perf_counter() + 0.2
    window = began + SETTLE, began + SETTLE + seconds
    people = [
        _Speaker(runtime, clips, random.Random(number), window, heard) for number in range(streams)
    ]
    mean = sum(len(clip.pcm) for clip in clips) / len(clips) / RATE
    tasks = [
        asyncio.create_task(each.run(began, each.chance.uniform(0, min(mean, SETTLE))))
        for each in people
    ]
    await asyncio.sleep(window[0] - time.perf_counter())
    before = (
        time.thread_time(),
        time.process_time(),
        busy.ears,
        busy.device,
        busy.updates,
        busy.rows,
    )
    lags: list[float] = []
    while (now := time.perf_counter()) < window[1]:
        await asyncio.sleep(0.02)
        lags.append(time.perf_counter() - now - 0.02)
        heard.level = max(heard.level, runtime.about["load"]["level"])
    after = time.thread_time(), time.process_time(), busy.ears, busy.device, busy.updates, busy.rows
    loop, process, ears, device, updates, rows = (
        now - then for now, then in zip(after, before, strict=True)
    )
    heard.loop, heard.process, heard.ears, heard.device, heard.updates = (
        each / seconds for each in (loop, process, ears, device, updates)
    )
    heard.rows = rows / max(1.0, updates)
    heard.lag = float(np.percentile(lags, 95))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for each in people:
        await each.end()
    return heard


class _Speaker:
    """One microphone: clip after clip on one stream."""

    def __init__(
        self, runtime: Runtime, clips: Sequence[Said], chance: random.Random,
        window: tuple[float, float], heard: Heard,
    ) -> None:  # fmt: skip
        self.chance = chance
        self._runtime = runtime
        self._clips = list(clips)
        self._window = window
        self._heard = heard
        self._stream: Stream | None = None
        self._places: list[tuple[float, float]] = []
        self._came: dict[int, float] = {}
        self._began = 0.0

    async def run(self, began: float, delay: float) -> None:
        await asyncio.sleep(max(0.0, began + delay - time.perf_counter()))
        self._stream = stream = self._runtime.open(Options())
        self._began = time.perf_counter()
        reading = asyncio.create_task(self._read(stream))
        fed = 0
        try:
            while True:
                clip = self.chance.choice(self._clips)
                self._places.append((fed / RATE, fed / RATE + clip.close))
                for start in range(0, len(clip.pcm), PIECE):
                    piece = clip.pcm[start : start + PIECE]
                    fed += len(piece)
                    wait = self._began + fed / RATE - time.perf_counter()
                    if wait > 0:
                        await asyncio.sleep(wait)
                    stream.offer(piece)
        finally:
            reading.cancel()
            self._note(time.perf_counter())

    async def end(self) -> None:
        """Let go of the stream."""
        if self._stream is None:
            return
        self._stream.stop()
        async for _ in self._stream:
            pass

    async def _read(self, stream: Stream) -> None:
        async for event in stream:
            if isinstance(event, Final) and event.text:
                place = sum(first <= event.start for first, _ in self._places) - 1
                self._came[place] = time.perf_counter()

    def _note(self, now: float) -> None:
        for place, (_, close) in enumerate(self._places):
            ended = self._began + close
            if not self._window[0] <= ended <= min(self._window[1], now - LATE / 2):
                continue
            came = self._came.get(place)
            if came is not None and came >= ended:
                self._heard.finals.append(came - ended)
            elif came is None:
                self._heard.finals.append(LATE)
                self._heard.missed += 1

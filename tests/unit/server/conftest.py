"""A server whose runtime is a stand-in that writes down what it hears."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from edge_runtime.config import Admitting, Config, Dialects, Serving
from edge_runtime.errors import MicrophoneError, ServerFull
from edge_runtime.events import Closed, Final, Flushed, Partial, SpeechEnd, SpeechStart
from edge_runtime.server import Limits, microphones

ROOM = 16000  # samples that a stream takes before its feeder waits
BLOCK = 1600  # samples it takes at a time


class StandInStream:
    """Every sample that is not 0 is speech; the text of a segment is how many it had.

    `pace` is seconds of work for each second of audio; `padding` makes texts long.
    """

    def __init__(self, options, pace=0.0, padding=0):
        self.options = options
        self.heard = []
        self._pace, self._padding = pace, padding
        self._items = deque()
        self._held = 0
        self._changed = asyncio.Event()
        self._segment = self._turn = 0
        self._speech = 0  # samples of speech in the open segment
        self._at = 0
        self.failure = None

    async def feed(self, pcm):
        for first in range(0, len(pcm), BLOCK):
            while self._held >= ROOM:
                self._changed.clear()
                await self._changed.wait()
            self.offer(pcm[first : first + BLOCK])

    def offer(self, pcm):
        self._held += len(pcm)
        self._put(pcm.copy())

    def flush(self):
        self._put("flush")

    def stop(self, reason="stop"):
        self._put(reason)

    def _put(self, item):
        self._items.append(item)
        self._changed.set()

    async def __aiter__(self):
        while True:
            while not self._items:
                self._changed.clear()
                await self._changed.wait()
            item = self._items.popleft()
            if self.failure is not None:
                raise self.failure
            if isinstance(item, str):
                for event in self._final("flush" if item == "flush" else "stop"):
                    yield event
                if item == "flush":
                    yield Flushed()
                    continue
                yield Closed(reason=item, audio_seconds=self._at / 16000)
                return
            await asyncio.sleep(len(item) / 16000 * self._pace)
            self._held -= len(item)
            self._changed.set()
            self.heard.append(item)
            self._at += len(item)
            count = int(np.count_nonzero(item))
            if count and not self._speech:
                yield SpeechStart(segment=self._segment, turn=self._turn, at=self._at / 16000)
            self._speech += count
            if self._speech and self.options.partials:
                yield Partial(
                    segment=self._segment, stable="", unstable=self._text(), start=0.0, end=1.0
                )

    def _final(self, reason):
        if not self._speech:
            return
        yield Final(
            segment=self._segment,
            turn=self._turn,
            reason=reason,
            text=self._text(),
            start=0.0,
            end=1.0,
            logprob=-0.1,
        )
        yield SpeechEnd(turn=self._turn, at=self._at / 16000)
        self._segment += 1
        self._turn += 1
        self._speech = 0

    def _text(self):
        return f"{self._speech}" + " " * self._padding


class StandInRuntime:
    """Opens stand-in streams, `most` at a time in all; `others` are chosen by their names."""

    model = "stand-in"
    languages = ("en",)
    tasks = ("transcribe",)
    device = SimpleNamespace(name="paper")
    fallback = None
    lost = None

    def __init__(self, most=100, pace=0.0, padding=0, others=None):
        self.streams = []
        self._others = {}
        for name, languages in (others or {}).items():
            other = self._others[name] = StandInRuntime(most, pace, padding)
            other.model, other.languages = name, languages
            if len(languages) > 1:
                other.tasks = ("transcribe", "translate")
        self.about = {}
        self._most, self._pace, self._padding = most, pace, padding

    @property
    def models(self):
        return {self.model: self, **self._others}

    def serving(self):
        return contextlib.nullcontext()

    def open(self, options):
        if len(self.streams) >= self._most:
            raise ServerFull("no room", "Try again later.")
        stream = StandInStream(options, self._pace, self._padding)
        self.streams.append(stream)
        return stream


class StandInCapture:
    """Gives the blocks that a test records to whoever listens."""

    made: list[StandInCapture]

    def __init__(self, profile):
        if profile.device == "none":
            raise MicrophoneError("there is no microphone 'none'", "There are 0: USB.")
        self.profile, self.closed = profile, False
        self.listeners = []
        self.made.append(self)

    def join(self, listener):
        self.listeners.append(listener)

    def leave(self, listener):
        self.listeners.remove(listener)

    def close(self):
        self.closed = True

    def record(self, samples):
        block = np.full(samples, 0.1, np.float32)
        block.flags.writeable = False
        for listener in self.listeners:
            listener.hear(block)

    def warn(self, code):
        for listener in self.listeners:
            listener.warn(code, "as it is said")


@pytest.fixture
def captures(monkeypatch):
    """Those that were opened."""
    monkeypatch.setattr(StandInCapture, "made", [], raising=False)
    monkeypatch.setattr(microphones, "Capture", StandInCapture)
    return StandInCapture.made


@pytest.fixture
def house(host, tmp_path):
    """Starts servers: `await house(serving={...}, limits=Limits(...), pace=...)`."""

    async def start(
        serving=None, limits=None, dialects=None, admitting=None, microphones=None, **stand_in
    ):
        # no keys of whoever runs the tests
        admitting = {"keys_file": str(tmp_path / "keys.json"), **(admitting or {})}
        config = Config(
            serving=Serving(port=0, **(serving or {})),
            admitting=Admitting(**admitting),
            dialects=Dialects(**(dialects or {})),
            microphones=microphones or {},
        )
        return await host(
            config, lambda _: StandInRuntime(**stand_in), limits or Limits(linger=0.5, grace=2.0)
        )

    return start


class Fuzz:
    """Damage by chance; `FUZZ_FRAMES` and `FUZZ_SEED` make of a share in the suite a long run."""

    def __init__(self):
        self.frames = int(os.environ.get("FUZZ_FRAMES", "500"))
        self.seed = int(os.environ.get("FUZZ_SEED", "5"))
        self.chance = random.Random(self.seed)
        self._memory = None

    def damaged(self, data, most=6):
        """The bytes with up to `most` places changed, often none."""
        bad = bytearray(data)
        for _ in range(self.chance.choice([0, 0, 1, most])):
            at = self.chance.randrange(len(bad) + 1)
            bad[at : at + self.chance.randint(0, 3)] = self.chance.randbytes(
                self.chance.randint(0, 3)
            )
        return bytes(bad)

    def looked(self):
        """Call it now and then: memory may not grow after the first time."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        if self._memory is None:
            self._memory = pages
        assert pages - self._memory < 10_000, "more than 40 MB were kept"


@pytest.fixture
def fuzz():
    """What damages messages; says its seed, so that a failure can be run again."""
    made = Fuzz()
    print(f"seed {made.seed}, {made.frames} frames")  # noqa: T201
    return made


@pytest.fixture
def speech():
    """`speech(samples)`: that many samples of s16le that all count as speech."""
    return lambda samples: np.full(samples, 1000, "<i2").tobytes()

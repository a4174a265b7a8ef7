"""What is kept of each stream between its updates: pages of the device, and the text so far."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np

from edge_runtime.decode.chunked.shape import ChunkShape
from edge_runtime.device.base import Buffer, Device
from edge_runtime.errors import DeviceError

_log = logging.getLogger(__name__)

MOST = 4096
"""Streams whose state is kept at a time, whatever memory there is."""

PASSED = 50
"""Times that all others are taken up before a stream counts as left: its session is gone."""

Key = tuple[str, int]
"""The session and the number of its segment."""


class Half:
    """The state of `rows` streams at one moment, a row each."""

    def __init__(self, device: Device, shape: ChunkShape, rows: int = 1) -> None:
        self.rows = rows
        self.pages = {
            f"page_{page.dtype}": device.alloc((rows, page.size), page.dtype)
            for page in shape.pages
        }
        self.words = words(device, shape, rows)

    def buffers(self) -> dict[str, Buffer]:
        return {**self.pages, **self.words}

    def row(self, number: int) -> dict[str, Buffer]:
        """One row of each."""
        return {
            name: buffer.view((1, *buffer.shape[1:]), number * _size(buffer))
            for name, buffer in self.buffers().items()
        }


def words(device: Device, shape: ChunkShape, rows: int) -> dict[str, Buffer]:
    """What the predictor keeps of `rows` streams."""
    found = {"tokens": device.alloc((rows, shape.context), np.int64)}
    for number, state in enumerate(shape.recurrent):
        size = (rows, state.layers, state.width)
        found[f"recurrent_{number}"] = device.alloc(size, state.dtype)
    return found


def _size(buffer: Buffer) -> int:
    size = 1
    for length in buffer.shape[1:]:
        size *= length
    return size


@dataclass
class Text:
    """Tokens of a stream one by one, and the encoded frame that each came at."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)

    def add(self, token: int, logprob: float, margin: float, frame: int) -> None:
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.margins.append(margin)
        self.frames.append(frame)

    def copy(self) -> Text:
        return Text([*self.tokens], [*self.logprobs], [*self.margins], [*self.frames])

    def until(self, frame: float) -> Text:
        """What was said before that frame."""
        count = sum(each < frame for each in self.frames)
        return Text(
            self.tokens[:count], self.logprobs[:count], self.margins[:count], self.frames[:count]
        )


class Kept:
    """One stream: its sample 0 is sample `base` of the session, `chunks` of it have been run.

    `halves` are read and written in turn, `turn` is the one that holds. Hold `lock` to go on.
    """

    def __init__(self, device: Device, shape: ChunkShape) -> None:
        self.halves = (Half(device, shape), Half(device, shape))
        self.lock = threading.Lock()
        self.begin(0)

    def begin(self, base: int) -> None:
        self.base = base
        self.turn = 0
        self.chunks = 0
        self.text = Text()


class Slot(Protocol):
    """What is kept of one stream: hold `lock` to go on with it."""

    lock: threading.Lock

    def begin(self, base: int) -> None:
        """Forget everything: sample 0 is sample `base` of the session."""
        ...


Each = TypeVar("Each", bound=Slot)


class States(Generic[Each]):
    """The streams of one model on one device, for all its lanes.

    A stream's state follows from its audio, so that what is not here is computed again. Room for
    another one is made anew, but where a stream was left, or where memory is short: then whoever
    waited longest makes room.
    """

    def __init__(self, make: Callable[[], Each], most: int = MOST) -> None:
        """`make` gives memory for one more stream."""
        self._make = make
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, Each] = OrderedDict()
        self._taken: dict[Key, int] = {}
        self._takes = 0
        self._free: list[Each] = []
        self._made = 0
        self._short = False

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, key: Key, base: int) -> Each:
        """The stream of that key, its lock held; a fresh one from `base` on where there is none.

        Waits for another lane that is at the same stream.
        """
        while True:
            with self._lock:
                self._takes += 1
                kept = self._kept.get(key)
                if kept is None:
                    kept = self._fresh()
                    self._kept[key], self._taken[key] = kept, self._takes
                    kept.begin(base)
                    return kept
                self._kept.move_to_end(key)
                self._taken[key] = self._takes
            kept.lock.acquire()
            with self._lock:
                if self._kept.get(key) is kept:
                    return kept
            kept.lock.release()  # it came to its end meanwhile

    def release(self, kept: Each) -> None:
        """Let others go on with it."""
        kept.lock.release()

    def drop(self, key: Key, kept: Each) -> None:
        """The stream is over: its pages are free. Its lock is held, and released."""
        with self._lock:
            if self._kept.get(key) is kept:
                del self._kept[key], self._taken[key]
                self._free.append(kept)
        kept.lock.release()

    def check_integrity(self) -> None:
        """Every stream is kept or free, and so once."""
        with self._lock:
            everyone = [*self._kept.values(), *self._free]
            assert len({id(kept) for kept in everyone}) == len(everyone) == self._made

    def _fresh(self) -> Each:
        """One that nobody uses, its lock held."""
        for free in self._free:
            # Somebody may be about to see that it is not what he waited for.
            if free.lock.acquire(blocking=False):
                self._free.remove(free)
                return free
        if self._made < self._most and not self._left():
            try:
                return self._new()
            except DeviceError as error:
                if not self._kept:
                    raise
                if not self._short:
                    _log.warning("streams are computed again, memory is short: %s", error)
                self._short = True
        # Whose turn it is not may be worked on: then more than `most` are there for a while.
        return self._oldest() or self._new()

    def _left(self) -> bool:
        """Whether the one that waited longest was passed over too often to be anybody's."""
        oldest = next(iter(self._kept), None)
        if oldest is None:
            return False
        return self._takes - self._taken[oldest] > PASSED * len(self._kept)

    def _oldest(self) -> Each | None:
        for key, kept in self._kept.items():
            if kept.lock.acquire(blocking=False):
                del self._kept[key], self._taken[key]
                return kept
        return None

    def _new(self) -> Each:
        made = self._make()
        self._made += 1
        made.lock.acquire()
        return made

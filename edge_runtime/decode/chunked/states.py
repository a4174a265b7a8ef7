"""What is kept of each stream between its updates: pages of the device, and the text so far."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from edge_runtime.decode.chunked.shape import ChunkShape
from edge_runtime.decode.slot import Slot
from edge_runtime.device.base import Buffer, Device


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


class Kept(Slot):
    """One stream: its sample 0 is sample `base` of the session, `chunks` of it have been run.

    `halves` are read and written in turn, `turn` is the one that holds.
    """

    def __init__(self, device: Device, shape: ChunkShape) -> None:
        self.halves = (Half(device, shape), Half(device, shape))
        super().__init__()

    def begin(self, base: int) -> None:
        self.base = base
        self.turn = 0
        self.chunks = 0
        self.text = Text()

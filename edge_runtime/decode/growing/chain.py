"""A model with a growing memory on a device: its programs, and what is kept of its streams."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from edge_runtime.decode.buckets import Buckets
from edge_runtime.decode.growing.shape import GrowingShape
from edge_runtime.decode.shape import load_shape
from edge_runtime.decode.slot import Slot
from edge_runtime.decode.tiles import Size
from edge_runtime.device.base import Buffer, Device


class Front:
    """The states of the front end of one stream at one moment."""

    def __init__(self, device: Device, shape: GrowingShape) -> None:
        self.buffers = {
            name: device.alloc(size, dtype) for name, (size, dtype) in shape.front.items()
        }


class Memory:
    """Keys and values of cross-attention, `length` vectors in all layers."""

    def __init__(self, device: Device, shape: GrowingShape, most: int) -> None:
        self._shape = shape
        size = shape.depth * shape.heads * most * shape.head_dim
        self._whole = {name: device.alloc((size,), np.float32) for name in "kv"}

    def view(self, length: int) -> dict[str, Buffer]:
        """The first `length` vectors' worth of it, laid out for that length."""
        shape = self._shape
        size = (shape.depth, 1, shape.heads, length, shape.head_dim)
        return {name: buffer.view(size) for name, buffer in self._whole.items()}


class Grown(Slot):
    """One stream: `chunks` of it were taken in, `encoded` of its vectors are in the memory.

    `said` are the tokens of the last text, and by how many vectors of memory each was there.
    """

    def __init__(self, device: Device, shape: GrowingShape, most: int) -> None:
        self.fronts = (Front(device, shape), Front(device, shape))
        self.features = device.alloc((most, shape.encoder_dim), np.float32)
        self.memories = (Memory(device, shape, most), Memory(device, shape, most))
        super().__init__()

    def begin(self, base: int) -> None:
        self.base = base
        self.chunks = 0
        self.front = 0
        self.encoded = 0
        self.memory = 0
        self.said: list[tuple[int, int]] = []


class GrowingChain:
    """The loaded programs: one for each model and device."""

    keeps = True
    """Whether the state of streams outlives their updates."""

    rows = 1
    """Memories of several lengths make no batch."""

    def __init__(self, device: Device, folder: Path) -> None:
        """`folder` holds the programs that the device runs, and `shape.json`.

        Raises `ModelMissing`, `ModelDamaged` or `DeviceError`.
        """
        self.device = device
        self.shape = shape = load_shape(folder, GrowingShape)
        self.parts = {part: device.load(folder / name) for part, name in shape.files.items()}
        for name in ("append", "cut", "choose"):
            self.parts[name] = device.load(folder / f"{name}.onnx")
        self.dtype = np.dtype(np.float32)
        self.start = Front(device, shape)

    def slots(self, count: int, size: Size) -> list[Grown]:
        """Memory for so many streams of the size's length; `DeviceError` where there is less."""
        most = self.vectors(size.samples)
        return [Grown(self.device, self.shape, most) for _ in range(count)]

    def vectors(self, samples: int) -> int:
        """Vectors that the features and the memory of such a stream have room for."""
        return self.shape.vectors(samples) + 2 * self.shape.features

    def buckets(self, size: Size) -> Buckets:
        """Nothing is rounded up: memories are as long as they are."""
        return Buckets()

    def state(self, rows: int, samples: int) -> int:
        """Bytes that are kept of so many streams of so many samples: two turns of each."""
        shape = self.shape
        vector = 4 * shape.depth * shape.heads * shape.head_dim + shape.encoder_dim
        front = sum(
            math.prod(size) * np.dtype(dtype).itemsize for size, dtype in shape.front.values()
        )
        return rows * (4 * self.vectors(samples) * vector + 2 * front)

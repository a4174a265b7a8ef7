"""A model with a growing memory on a device: its programs, and what is kept of its streams."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from edge_runtime.decode.buckets import Buckets
from edge_runtime.decode.chunked.states import States
from edge_runtime.decode.growing.shape import GrowingShape
from edge_runtime.decode.shape import load_shape
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


class Grown:
    """One stream: `chunks` of it were taken in, `encoded` of its vectors are in the memory.

    `said` are the tokens of the last text, and by how many vectors of memory each was there.
    """

    def __init__(self, device: Device, shape: GrowingShape, most: int) -> None:
        self.lock = threading.Lock()
        self.fronts = (Front(device, shape), Front(device, shape))
        self.features = device.alloc((most, shape.encoder_dim), np.float32)
        self.memories = (Memory(device, shape, most), Memory(device, shape, most))
        self.begin(0)

    def begin(self, base: int) -> None:
        self.base = base
        self.chunks = 0
        self.front = 0
        self.encoded = 0
        self.memory = 0
        self.said: list[tuple[int, int]] = []


class GrowingChain:
    """The loaded programs and the streams: one for each model and device."""

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
        self._states: States[Grown] | None = None
        self._lock = threading.Lock()
        self._most = 0

    def states(self, samples: int) -> States[Grown]:
        """The streams, of up to so many samples each: those of all lanes that ask for no more."""
        with self._lock:
            if self._states is None or self.vectors(samples) > self._most:
                self._most = self.vectors(samples)
                self._states = States(lambda: Grown(self.device, self.shape, self._most))
            return self._states

    def vectors(self, samples: int) -> int:
        """Vectors that the features and the memory of such a stream have room for."""
        return self.shape.vectors(samples) + 2 * self.shape.features

    def buckets(self, size: Size) -> Buckets:
        """Nothing is rounded up: memories are as long as they are."""
        return Buckets()

    def state(self, rows: int, samples: int) -> int:
        """Bytes of keys and values of so many streams of so many samples."""
        shape = self.shape
        vectors = self.vectors(samples)
        each = 4 * shape.depth * shape.heads * shape.head_dim + shape.encoder_dim
        return rows * vectors * each * 4

"""A streaming transducer on a device: its two programs, and the state that streams begin in."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path

import numpy as np

from edge_runtime.decode.buckets import Buckets
from edge_runtime.decode.chunked.shape import ChunkShape
from edge_runtime.decode.chunked.states import Half, Kept
from edge_runtime.decode.shape import load_shape
from edge_runtime.decode.tiles import Size
from edge_runtime.device.base import Buffer, Device
from edge_runtime.errors import DeviceError


class ChunkChain:
    """The loaded programs: one for each model and device."""

    keeps = True
    """Whether the state of streams outlives their updates."""

    def __init__(self, device: Device, folder: Path) -> None:
        """`folder` holds the plans that the device runs, and `shape.json`.

        Raises `ModelMissing`, `ModelDamaged` or `DeviceError`.
        """
        self.device = device
        self.shape = load_shape(folder, ChunkShape)
        self.encoder = device.load(folder / f"encoder{device.suffix}")
        self.greedy = device.load(folder / f"greedy{device.suffix}")
        self.dtype = self.encoder.outputs["encoded"].dtype
        self.start = self._start()

    @property
    def rows(self) -> int:
        """The most streams that one call may take: where a batch saves nothing, one."""
        return 1 if self.shape.single or not self.device.batches else 1 << 16

    def buckets(self, size: Size) -> Buckets:
        """Nothing is rounded up: audio goes in chunk by chunk."""
        return Buckets()

    def state(self, rows: int, samples: int) -> int:
        """Bytes that are kept of so many streams, however long they are: two turns of each."""
        each = sum(
            math.prod(buffer.shape) * buffer.dtype.itemsize
            for buffer in self.start.buffers().values()
        )
        return 2 * rows * int(each)

    def slots(self, count: int, size: Size) -> list[Kept]:
        """Memory for so many streams; raises `DeviceError` where there is less."""
        return [Kept(self.device, self.shape) for _ in range(count)]

    def _start(self) -> Half:
        """Nothing heard, nothing said: zeros, and the blank behind tokens that there never were."""
        half = Half(self.device, self.shape)
        tokens = np.full((1, self.shape.context), -1, np.int64)
        tokens[0, -1] = self.shape.blank
        self._fill(half.words["tokens"], tokens)
        return half

    def _fill(self, buffer: Buffer, values: np.ndarray) -> None:
        with contextlib.suppress(DeviceError):
            buffer.host[...] = values
            return
        pinned = self.device.alloc(values.shape, values.dtype, "pinned")
        pinned.host[...] = values
        stream = self.device.stream()
        self.device.copy(pinned, buffer, stream, "weights")
        stream.synchronize()

"""The tile chain of an encoder–decoder model on a device: its programs, table and sizes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge_runtime.decode.buckets import Buckets
from edge_runtime.decode.passes import Tiled
from edge_runtime.decode.shape import ModelShape, load_shape
from edge_runtime.device.base import Device, Program
from edge_runtime.errors import DeviceError

FRAMES = 16
"""Matrix kernels are quicker where the frames of a bucket are a multiple of this."""


@dataclass(frozen=True)
class Size:
    """How much a lane can hold: rows of a batch, samples of a row.

    `together` is samples of all rows, their padding included: a batch has many short rows or a
    few long ones. 0: every row may be the longest.
    """

    rows: int
    samples: int
    together: int = 0

    @property
    def whole(self) -> int:
        """Samples of the largest batch."""
        return max(
            self.samples, min(self.together or self.rows * self.samples, self.rows * self.samples)
        )

    def fits(self, rows: int, samples: int) -> bool:
        """Whether so many rows of so many samples each, both rounded up, are a batch for it."""
        return rows <= self.rows and samples <= self.samples and rows * samples <= self.whole


class Chain:
    """The loaded programs and the embedding table: one for each model and device."""

    keeps = False
    """Whether the state of streams outlives their updates: no, all is computed again."""

    def __init__(self, device: Device, folder: Path) -> None:
        """`folder` holds the plans that the device runs, `shape.json` and `table.npy`.

        Raises `ModelMissing`, `ModelDamaged` or `DeviceError`.
        """
        self.device = device
        self.folder = folder
        self.shape = shape = load_shape(folder, ModelShape)
        self.encoder = device.load(folder / f"encoder{device.suffix}")
        self.embedding = device.load(folder / f"embedding{device.suffix}")
        self.tiles: list[Program] = [
            device.load(folder / f"layers_{layers.start}_{layers.stop}{device.suffix}")
            for layers in shape.tiles
        ]
        self.own_encoder: Program | None = device.encoder(folder)
        self.own_decoder: Program | None = device.decoder(folder)
        self._trial = threading.Lock()
        self._tiled: Tiled | None = None
        table = np.load(folder / "table.npy")
        # The table may be of integers; what the layers hand on is not.
        self.dtype = self.embedding.outputs["hidden"].dtype
        self.table = device.alloc(table.shape, table.dtype)
        self._fill_table(table)

    @property
    def has_own(self) -> bool:
        """Whether the device has kernels of its own for a part of it."""
        return self.own_encoder is not None or self.own_decoder is not None

    @property
    def rows(self) -> int:
        """The most updates that are worth decoding together: one where a batch saves nothing."""
        return 1 << 16 if self.device.batches else 1

    def tiled(self, tried: Callable[[], Tiled]) -> Tiled:
        """What `tried` finds for the first lane that asks; the others wait and take that."""
        with self._trial:
            if self._tiled is None:
                self._tiled = tried()
            return self._tiled

    def _fill_table(self, table: np.ndarray) -> None:
        # An integrated GPU has no other memory than the host's, and keeps this from it as well.
        with contextlib.suppress(DeviceError):
            self.table.host[...] = table
            return
        pinned = self.device.alloc(table.shape, table.dtype, "pinned")
        pinned.host[...] = table
        stream = self.device.stream()
        self.device.copy(pinned, self.table, stream, "weights")
        stream.synchronize()

    def buckets(self, size: Size) -> Buckets:
        """What shapes of a lane of that size are rounded up to on this device."""
        if not self.device.rounds:
            return Buckets()
        rate = self.shape.rate
        samples = [self.whole_frames(int(each * rate)) for each in self.shape.audio_seconds]
        return Buckets(
            _up_to(size.rows, [1 << power for power in range(8)]),
            _up_to(size.samples, samples),
            _up_to(self.shape.widest, list(self.shape.draft_tokens)),
        )

    def state(self, rows: int, samples: int) -> int:
        """Bytes of keys and values of so many rows of so many samples each.

        Those of cross-attention, and all turns of self-attention's, of all layers.
        """
        shape = self.shape
        frames = max(1, shape.frames(samples)) + (1 if shape.fused else 2) * shape.past
        width = shape.heads * shape.padded_head_dim
        return 2 * shape.decoder_layers * rows * frames * width * int(self.dtype.itemsize)

    def whole_frames(self, samples: int) -> int:
        """At least so many samples, whose frames are a multiple of `FRAMES` or fill a window."""
        if self.shape.window:
            return self.shape.padded(samples)
        return self.shape.samples(-(-self.shape.frames(samples) // FRAMES) * FRAMES)


def _up_to(most: int, sizes: list[int]) -> tuple[int, ...]:
    return (*(size for size in sorted(sizes) if size < most), most)

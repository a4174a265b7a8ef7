"""Audio from mapped memory into a row of the device by one kernel, instead of copies and a fill."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

from edge_runtime.device.cuda.module import Module
from edge_runtime.device.cuda.status import failure

SOURCE = Path(__file__).with_name("gather.cu")
KERNEL = "gather"

MOST = 2
"""Pieces at once: a ring wraps at most once."""

_THREADS = 256
_KINDS = (
    ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int,
)  # fmt: skip


class Gather:
    """The kernel of a loaded module."""

    def __init__(self, module: Module) -> None:
        from cuda.bindings import driver as cuda

        self._cuda = cuda
        self._kernel = module.kernels[KERNEL]

    def __call__(self, row: int, size: int, pieces: Sequence[tuple[int, int]], stream: int) -> None:
        """Enqueue a row of `size` samples, made of at most `MOST` (address, samples); zeros after.

        The context must be current. Raises `DeviceError`.
        """
        first, second = (*pieces, (0, 0), (0, 0))[:MOST]
        values = (row, size, *first, *second)
        blocks = -(-size // _THREADS)
        result = self._cuda.cuLaunchKernel(
            self._kernel, blocks, 1, 1, _THREADS, 1, 1, 0, stream, (values, _KINDS), 0
        )
        if result[0]:
            raise failure("cuLaunchKernel", result[0], f"{size} samples could not be gathered")

"""Weights for our own kernels: in the order that they read them, in one piece of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.device.base import Buffer

if TYPE_CHECKING:
    from edge_runtime.device.cuda.device import CudaDevice

PIECE = 16
"""Rows and columns of a piece of a matrix."""

ALIGNED = 256


def packed(matrix: NDArray[Any]) -> NDArray[Any]:
    """A matrix (in, out) as a warp reads it: (out / 16, in / 16, 32 lanes, 8), same dtype.

    A lane's eight weights of a piece of 16 × 16 lie side by side, in the order of the left
    operand of `mma.m16n8k16`, the piece transposed (PTX ISA, "Matrix Fragments"): with
    g = lane // 4 and t = 2 (lane % 4), the element 2 p + j is row t + j + 8 (p // 2) and
    column g + 8 (p % 2). Both sizes must be multiples of 16.
    """
    rows, columns = (size // PIECE for size in matrix.shape)
    # Axes: pieces down, p // 2, lane % 4, j; pieces across, p % 2, lane // 4.
    pieces = matrix.reshape(rows, 2, 4, 2, columns, 2, 8)
    ordered = pieces.transpose(4, 0, 6, 2, 1, 5, 3)
    return np.ascontiguousarray(ordered).reshape(columns, rows, 32, 8)


def upload(device: CudaDevice, weights: Mapping[str, NDArray[Any]]) -> dict[str, Buffer]:
    """All weights in one piece of device memory, each at a multiple of 256 bytes."""
    places, end = {}, 0
    for name, array in weights.items():
        places[name] = end
        end += -(-array.nbytes // ALIGNED) * ALIGNED
    whole, pinned = (device.alloc((end,), np.uint8, kind) for kind in ("device", "pinned"))
    for name, array in weights.items():
        view = pinned.view((array.nbytes,), places[name])
        view.host[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    stream = device.stream()
    device.copy(pinned, whole, stream, "weights")
    stream.synchronize()
    return {
        name: whole.view(array.shape, places[name], array.dtype) for name, array in weights.items()
    }

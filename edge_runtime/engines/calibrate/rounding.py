"""Weights as 8-bit integers with a scale for each output channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.calibrate.scheme import LARGEST, steps

PAIR = 128
"""The most that two neighbours of one sign may add up to.

x86 processors without VNNI multiply unsigned by signed bytes and add neighbours in 16 bits:
255 · 128 still fits. onnxruntime's kernels for them would otherwise saturate, or have to take
a detour that costs a quarter of the time.
"""

RANGES = (1.0, 0.9, 1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0)
"""What is tried as a channel's range, in its largest weight: neighbours may want more."""


@dataclass(frozen=True)
class Rounded:
    """`values` (in, out) int8 times `scales` (out,) float32, each of which float16 holds."""

    values: NDArray[np.int8]
    scales: NDArray[np.float32]

    @property
    def floats(self) -> NDArray[np.float32]:
        return np.multiply(self.values, self.scales, dtype=np.float32)


def rounded(matrix: NDArray[np.float32], smooth: NDArray[np.float32] | None = None) -> Rounded:
    """`matrix` (in, out), its input channels times `smooth`, in 8 bits.

    Of a few ranges each channel gets the one with the least squared error.
    """
    matrix = np.asarray(matrix, np.float32)
    if smooth is not None:
        matrix = matrix * smooth[:, None]
    largest = np.abs(matrix).max(axis=0)
    best = _at(matrix, largest * RANGES[0])
    error = _squares(matrix, best)
    for times in RANGES[1:]:
        other = _at(matrix, largest * times)
        found = _squares(matrix, other)
        better = found < error
        error = np.where(better, found, error)
        best = Rounded(
            np.where(better, other.values, best.values), np.where(better, other.scales, best.scales)
        )
    return best


def _at(matrix: NDArray[np.float32], largest: NDArray[np.float32]) -> Rounded:
    scales = steps(largest)
    values = np.clip(np.rint(matrix / scales), -LARGEST, LARGEST).astype(np.int16)
    _relieve(values)
    return Rounded(values.astype(np.int8), scales)


def _relieve(values: NDArray[np.int16]) -> None:
    """Bring neighbours (rows 2i and 2i+1) of one sign down to `PAIR`, each by half."""
    even = len(values) // 2 * 2
    first, second = values[0:even:2], values[1:even:2]
    alike = (first > 0) == (second > 0)
    excess = np.where(alike, np.maximum(np.abs(first + second) - PAIR, 0), 0).astype(np.int16)
    half = excess // 2
    first -= np.sign(first) * (excess - half)
    second -= np.sign(second) * half


def _squares(matrix: NDArray[np.float32], found: Rounded) -> NDArray[np.float32]:
    difference = found.floats - matrix
    squares: NDArray[np.float32] = np.einsum("ij,ij->j", difference, difference)
    return squares

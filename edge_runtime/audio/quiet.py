"""Where running speech can be cut with the least harm."""

from __future__ import annotations

import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples

_BLOCK = RATE // 100
_WIDTH = 10


def quietest(samples: Samples) -> int:
    """The middle of the 100 ms of least energy in float32 (n,) samples, n at least 100 ms."""
    blocks = samples[: len(samples) // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    energy = np.convolve(np.einsum("ij,ij->i", blocks, blocks), np.ones(_WIDTH), "valid")
    return (int(np.argmin(energy)) + _WIDTH // 2) * _BLOCK

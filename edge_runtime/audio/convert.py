"""Samples of any rate, in one channel or several, to the 16 kHz mono that is worked on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np

from edge_runtime.audio.resample import Resampler
from edge_runtime.audio.ring import Samples

Piece = TypeVar("Piece")


def converted(
    pieces: Iterable[Piece], push: Callable[[Piece], Samples], flush: Callable[[], Samples]
) -> Iterator[Samples]:
    """What `push` makes of each piece, as soon as it is there, then the rest; no empty blocks."""
    for piece in pieces:
        samples = push(piece)
        if len(samples):
            yield samples
    rest = flush()
    if len(rest):
        yield rest


class Converter:
    """float32 at a rate to 16 kHz: mended, channels averaged, resampled.

    `repaired` counts values that were NaN or infinite (now 0), `clipped` those beyond ±1
    (now ±1).
    """

    def __init__(self, rate: int) -> None:
        """Raises `AudioError` for a rate that cannot be converted."""
        self._resampler = Resampler(rate)
        self.repaired = 0
        self.clipped = 0

    @property
    def warnings(self) -> list[str]:
        """Sentences about the values that had to be mended, none when there were none."""
        said = []
        if self.repaired:
            said.append(f"{self.repaired} values were NaN or infinite and count as silence")
        if self.clipped:
            said.append(f"{self.clipped} values were beyond full scale and were clipped")
        return said

    def push(self, samples: Samples) -> Samples:
        """What can be said after these samples, (n,) or (n, channels)."""
        samples, repaired, clipped = mended(samples)
        self.repaired += repaired
        self.clipped += clipped
        if samples.ndim > 1:
            samples = samples[:, 0] if samples.shape[1] == 1 else samples.mean(axis=1)
        return self._resampler.push(samples)

    def flush(self) -> Samples:
        """What was held back; the next `push` begins a new stream."""
        return self._resampler.flush()


def mended(samples: Samples) -> tuple[Samples, int, int]:
    """`samples` without what no microphone sends, how many were not finite, how many too loud.

    NaN and infinities become 0, values beyond ±1 become ±1. The array itself is given
    back when nothing was wrong with it, and never changed.
    """
    repaired = clipped = 0
    finite = np.isfinite(samples)
    if not finite.all():
        repaired = int(samples.size - np.count_nonzero(finite))
        samples = np.where(finite, samples, np.float32(0))
    loud = np.abs(samples) > 1
    if loud.any():
        clipped = int(np.count_nonzero(loud))
        samples = samples.clip(-1, 1)
    return samples, repaired, clipped

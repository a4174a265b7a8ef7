"""Where speech begins and ends in a clip, by the energy of its 20 ms frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples

FRAME = 320  # 20 ms
RANGE_DB = 30.0
VOICED_DB = 20.0
"""What counts for the onset: within 30 dB lies the noise floor of many clean recordings."""

_SILENT = 1e-10  # −100 dB of full scale: below it there is nothing to find


@dataclass(frozen=True)
class Span:
    """Speech from sample `start` to sample `end` of a clip."""

    start: int
    end: int

    @property
    def onset(self) -> float:
        """Seconds."""
        return self.start / RATE

    @property
    def close(self) -> float:
        """Seconds."""
        return self.end / RATE


def frame_energies(pcm: Samples) -> NDArray[np.float64]:
    """(frames,) mean square of each whole 20 ms frame of (samples,) audio."""
    count = len(pcm) // FRAME
    frames = pcm[: count * FRAME].reshape(count, FRAME).astype(np.float64)
    return np.asarray((frames * frames).mean(axis=1))


def speech(pcm: Samples, below_db: float = RANGE_DB) -> Span | None:
    """Where speech is, or None where the clip is silent or shorter than three frames.

    A frame is loud when it lies within `below_db` of the 95th percentile of the
    clip's frame energies. Speech starts with the first of three loud frames in
    a row and ends with the last loud frame.
    """
    energies = frame_energies(pcm)
    if len(energies) < 3:
        return None
    level = float(np.percentile(energies, 95))
    if level < _SILENT:
        return None
    loud = energies >= level * 10.0 ** (-below_db / 10)
    starts = np.flatnonzero(loud[:-2] & loud[1:-1] & loud[2:])
    if not len(starts):
        return None
    return Span(int(starts[0]) * FRAME, (int(np.flatnonzero(loud)[-1]) + 1) * FRAME)


def trimmed(pcm: Samples) -> Samples:
    """The clip without the silence before and after its speech."""
    span = speech(pcm)
    return pcm if span is None else pcm[span.start : span.end]

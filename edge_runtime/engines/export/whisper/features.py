"""The log-mel spectrogram that Whisper hears, as part of its encoder's graph.

25 ms windows of Hann every 10 ms, 80 bands on the mel scale of Slaney's Auditory Toolbox
(1998), each of unit area; the decimal logarithm, no more than 8 below the loudest of the
row, as (x + 4) / 4. Behind the audio it is zero. An update encodes its whole window, so that
the loudest of it is known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.export.graph import GraphWriter

RATE = 16_000
HOP = 160
WINDOW = 400
_EDGE = WINDOW // 2


def log_mel(g: GraphWriter, audio: str, length: str, bins: int) -> tuple[str, str]:
    """Of `audio` (B,N) float32 and `length` (B) in samples: (B,bins,F) float32 and its steps (B).

    F is N // 160, that of a row `length // 160`.
    """
    inside = g.op("Less", g.arange(g.size(audio, 1)), g.unsqueeze(length, 1))
    heard = g.mul(audio, g.cast(inside, np.float32))
    power = _power(g, heard)
    steps = g.op("Div", length, g.ints(HOP))
    total = g.op("Div", g.size(audio, 1), g.ints(HOP))
    power = g.op("Slice", power, g.ints(0), total, g.ints(2))
    mel = g.matmul(g.constant(filters(bins), np.float32), power)
    level = g.op("Log", g.op("Max", mel, g.scalar(1e-10, np.float32)))
    level = g.mul(level, g.scalar(1 / np.log(10.0), np.float32))
    known = g.unsqueeze(g.op("Less", g.arange(total), g.unsqueeze(steps, 1)), 1)
    loudest = g.op("Where", known, level, g.scalar(-10.0, np.float32))
    loudest = g.op("ReduceMax", loudest, axes=[1, 2], keepdims=1)
    level = g.op("Max", level, g.op("Sub", loudest, g.scalar(8.0, np.float32)))
    level = g.mul(g.add(level, g.scalar(4.0, np.float32)), g.scalar(0.25, np.float32))
    return g.op("Where", known, level, g.scalar(0.0, np.float32)), steps


def _power(g: GraphWriter, audio: str) -> str:
    """(B,201,F) squared magnitudes of windows centred on every step, mirrored at the start."""
    mirrored = g.op("Gather", audio, g.constant(np.arange(_EDGE, 0, -1, dtype=np.int64)), axis=1)
    behind = g.mul(mirrored, g.scalar(0.0, np.float32))
    whole = g.unsqueeze(g.op("Concat", mirrored, audio, behind, axis=1), 1)
    waves = g.constant(basis(), np.float32)
    real, imaginary = g.split(
        g.op("Conv", whole, waves, strides=[HOP]), [_EDGE + 1, _EDGE + 1], axis=1
    )
    return g.add(g.mul(real, real), g.mul(imaginary, imaginary))


def basis() -> NDArray[np.float64]:
    """(402,1,400): cosines, then sines, of all 201 frequencies, under a periodic Hann window."""
    times = np.arange(WINDOW)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * times / WINDOW)
    angles = 2 * np.pi * np.outer(np.arange(_EDGE + 1), times) / WINDOW
    return np.concatenate([np.cos(angles), np.sin(angles)])[:, None] * window


def filters(bins: int) -> NDArray[np.float64]:
    """(bins,201) triangles evenly spaced on the mel scale from 0 to 8 kHz, each of unit area."""
    edges = _hertz(np.linspace(0.0, _mel(RATE / 2), bins + 2))
    frequencies = np.linspace(0.0, RATE / 2, _EDGE + 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rise = (frequencies - low) / (middle - low)
    fall = (high - frequencies) / (high - middle)
    return np.maximum(0.0, np.minimum(rise, fall)) * 2.0 / (high - low)


# Linear below 1 kHz, logarithmic above: 27 mels to a factor of 6.4.
_KNEE, _SLOPE = 1000.0, 200.0 / 3.0
_STEP = np.log(6.4) / 27.0


def _mel(hertz: float) -> float:
    above = float(_KNEE / _SLOPE + np.log(max(hertz, _KNEE) / _KNEE) / _STEP)
    return above if hertz >= _KNEE else hertz / _SLOPE


def _hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    knee = _KNEE / _SLOPE
    return np.where(mels < knee, mels * _SLOPE, _KNEE * np.exp(_STEP * (mels - knee)))

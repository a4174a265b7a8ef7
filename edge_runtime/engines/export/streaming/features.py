"""The log-mel front end as a part of a graph: one convolution, one product, a logarithm.

Everything before the spectrum (offset, pre-emphasis, window) is linear in the samples of a frame,
so it is folded into the sines and cosines of the Fourier transform. A frame depends on its own
samples alone: however audio is cut into chunks, its features are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.export.graph import GraphWriter

RATE = 16000
STEP = 160
LENGTH = 400
FFT = 512
PREEMPHASIS = 0.97

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class FrontEnd:
    """How samples become features.

    `first` is the sample at which frame 0 begins, `length` how many samples a frame takes;
    `mirrored` tells whether samples before the first are its mirror image, or zeros.
    `basis` (2·bins of the spectrum, length) turns a frame into real and imaginary parts, `mel`
    (bins of the spectrum, features) sums their squares; what comes is `log(max(x, floor) + guard)`.
    """

    first: int
    length: int
    mirrored: bool
    basis: Matrix
    mel: Matrix
    floor: float
    guard: float

    def write(self, g: GraphWriter, audio: str, blank: str, frames: int) -> str:
        """`audio` (B, (frames-1)·160 + length) → features (B, frames, features), float32.

        The first `blank` (B) frames of each row come out as zeros.
        """
        wave = g.reshape(audio, -1, 1, (frames - 1) * STEP + self.length)
        kernel = g.constant(self.basis[:, None, :], np.float32)
        parts = g.op("Conv", wave, kernel, strides=[STEP])
        squares = g.transpose(g.mul(parts, parts), 0, 2, 1)
        # Real and imaginary parts are summed by the same product that makes bands of them.
        bands = g.matmul(squares, g.constant(np.concatenate([self.mel, self.mel]), np.float32))
        floored = g.op("Max", bands, g.constant(np.array(self.floor), np.float32))
        logs = g.op("Log", g.add(floored, g.constant(np.array(self.guard), np.float32)))
        numbers = g.constant(np.arange(frames)[None, :, None], np.int64)
        missing = g.op("Less", numbers, g.reshape(blank, -1, 1, 1))
        return g.op("Where", missing, g.constant(np.array(0.0), np.float32), logs)


def kaldi(bins: int) -> FrontEnd:
    """As Kaldi computes them, with the options of icefall's recipes.

    Povey's window over 25 ms every 10 ms, no dither, frames centred on their step
    (`snip_edges` false), bands from 20 Hz to 400 Hz below Nyquist's.
    """
    steps = np.arange(LENGTH)
    window = (0.5 - 0.5 * np.cos(2 * np.pi * steps / (LENGTH - 1))) ** 0.85
    centred = np.eye(LENGTH) - 1.0 / LENGTH
    emphasised = np.eye(LENGTH) - PREEMPHASIS * np.eye(LENGTH, k=-1)
    emphasised[0, 0] -= PREEMPHASIS  # the sample before the first is taken to be like it
    frame = window[:, None] * (emphasised @ centred)
    mel = _kaldi_bands(bins, 20.0, RATE / 2 - 400.0)
    first = STEP // 2 - LENGTH // 2
    epsilon = float(np.finfo(np.float32).eps)
    return FrontEnd(first, LENGTH, True, _fourier() @ frame, mel, epsilon, 0.0)


def nemo(bins: int) -> FrontEnd:
    """As NeMo computes them: pre-emphasis over the whole signal, Hann's window, Slaney's bands.

    Frame n is centred on sample 160·n; nothing is normalised, which is how its streaming models
    are trained.
    """
    steps = np.arange(LENGTH)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * steps / (LENGTH - 1))
    # One sample more, before the frame: pre-emphasis looks back across its edge.
    emphasised = np.eye(LENGTH, LENGTH + 1, k=1) - PREEMPHASIS * np.eye(LENGTH, LENGTH + 1)
    basis = _fourier() @ (window[:, None] * emphasised)
    mel = _slaney_bands(bins, 0.0, RATE / 2)
    return FrontEnd(-LENGTH // 2 - 1, LENGTH + 1, False, basis, mel, 0.0, 2.0**-24)


def _fourier() -> Matrix:
    """Real parts, then imaginary ones, of the spectrum of a frame padded to `FFT` samples."""
    angles = 2 * np.pi * np.outer(np.arange(FFT // 2 + 1), np.arange(LENGTH)) / FFT
    return np.concatenate([np.cos(angles), -np.sin(angles)])


def _kaldi_bands(bins: int, low: float, high: float) -> Matrix:
    """Triangles on the scale 1127·ln(1 + f/700); the bin at Nyquist's frequency takes no part."""

    def mel(hertz: Matrix | float) -> Matrix:
        return np.asarray(1127.0 * np.log1p(np.asarray(hertz) / 700.0))

    edges = np.linspace(mel(low), mel(high), bins + 2)
    points = mel(np.arange(FFT // 2 + 1) * RATE / FFT)
    points[-1] = np.inf
    return _triangles(points, edges)


def _slaney_bands(bins: int, low: float, high: float) -> Matrix:
    """Triangles of equal area over frequency, on a scale linear to 1 kHz and logarithmic above.

    Slaney, Auditory Toolbox, 1998.
    """
    linear, corner = 200.0 / 3, 1000.0
    grow = np.log(6.4) / 27.0

    def mel(hertz: float) -> float:
        if hertz < corner:
            return hertz / linear
        return float(corner / linear + np.log(hertz / corner) / grow)

    scale = np.linspace(mel(low), mel(high), bins + 2)
    above = corner * np.exp(grow * (scale - corner / linear))
    edges = np.where(scale < corner / linear, scale * linear, above)
    points = np.arange(FFT // 2 + 1) * RATE / FFT
    areas: Matrix = 2.0 / (edges[2:] - edges[:-2])
    return _triangles(points, edges) * areas


def _triangles(points: Matrix, edges: Matrix) -> Matrix:
    """(points, bands): band n rises from edge n to edge n+1 and falls to edge n+2."""
    with np.errstate(invalid="ignore"):
        rising = (points[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
        falling = (edges[2:] - points[:, None]) / (edges[2:] - edges[1:-1])
    weights: Matrix = np.maximum(0.0, np.minimum(rising, falling))
    return weights

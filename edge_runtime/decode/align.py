"""Word times from cross-attention: the best monotonic path of tokens over encoder frames."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.tokens import Span

BIAS = 0.09
"""Attention leaves a word early: this much is added to every time (seconds)."""


def token_frames(attention: NDArray[np.float32]) -> NDArray[np.int64]:
    """The first frame of each token, and past the last one's end: (tokens + 1,), ascending.

    `attention` is (tokens, frames) float32, tokens ≤ frames. Each frame belongs to
    one token, in order, so that the summed log attention is largest (dynamic time
    warping with the steps stay and advance; Sakoe and Chiba 1978).
    """
    tokens, frames = attention.shape
    score = np.log(attention + 1e-6)
    best = np.full(tokens, -np.inf)
    best[0] = score[0, 0]
    moved = np.zeros((frames, tokens), bool)
    for frame in range(1, frames):
        arrive = np.concatenate([[-np.inf], best[:-1]])
        moved[frame] = arrive > best
        best = np.maximum(arrive, best) + score[:, frame]
    first = np.zeros(tokens + 1, np.int64)
    first[tokens] = frames
    token = tokens - 1
    for frame in range(frames - 1, 0, -1):
        if token and moved[frame, token]:
            first[token] = frame
            token -= 1
    return first


def word_times(
    spans: Sequence[Span], attention: NDArray[np.float32], frame_seconds: float
) -> list[tuple[float, float]]:
    """Start and end of every word in seconds from the segment's start."""
    if not spans or attention.shape[0] > attention.shape[1]:
        return [(0.0, 0.0) for _ in spans]
    first = token_frames(attention)
    whole = attention.shape[1] * frame_seconds

    def at(token: int) -> float:
        return float(min(first[token] * frame_seconds + BIAS, whole)) if token else 0.0

    return [(at(span.first), at(span.bare_last)) for span in spans]


def spoken_times(
    spans: Sequence[Span], frames: Sequence[int], frame_seconds: float
) -> list[tuple[float, float]]:
    """The same for a model that says each token when it hears it, at its encoder frame."""
    return [
        (frames[span.first] * frame_seconds, (frames[span.bare_last - 1] + 1) * frame_seconds)
        for span in spans
    ]

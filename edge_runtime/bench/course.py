"""How a clip goes, as the server hears it: when speech begins, pauses, goes on and ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from edge_runtime.audio import FRAME, RATE
from edge_runtime.audio.endpoint import Endpointer, Onset, Resumed, Silence, Verdict
from edge_runtime.audio.ring import Samples
from edge_runtime.bench import energy
from edge_runtime.bench.client import PIECE, Playing
from edge_runtime.bench.manifest import Clip
from edge_runtime.config import Listening

What = Literal["onset", "silence", "resumed", "endpoint"]
Judge = Callable[[Sequence[Samples]], list[list[float]]]
"""How probable speech is in each frame of each of these clips."""


@dataclass(frozen=True)
class Moment:
    """A verdict: told `at` seconds from the clip's start, about where `place` seconds lie in it."""

    at: float
    what: What
    place: float


@dataclass(frozen=True)
class Course:
    """One clip of so many seconds, paced. Speech ends at `close` (None: there is none); audio goes
    on until `least` at least, and `most` at most."""

    moments: tuple[Moment, ...]
    seconds: float
    close: float | None
    least: float
    most: float


def heard(seconds: float) -> float:
    """Audio that is judged so long after a clip began: whole frames of whole pieces."""
    pieces = int(seconds * RATE / PIECE + 1e-6)
    return pieces * PIECE // FRAME * FRAME / RATE


def piece(seconds: float) -> float:
    """When a clip's audio up to there has been sent, and can be heard."""
    return math.ceil(seconds * RATE / PIECE - 1e-6) * PIECE / RATE


def courses(clips: Sequence[Clip], judge: Judge, listening: Listening) -> list[Course]:
    """Those of clips, one for each, by the voice detector's rules."""
    playing = Playing()
    rest = np.zeros(int(playing.patience * RATE), np.float32)
    judged = judge([np.concatenate([clip.pcm, rest]) for clip in clips])
    found = []
    for clip, probabilities in zip(clips, judged, strict=True):
        span = energy.speech(clip.pcm)
        least = (span.close if span else clip.seconds) + playing.endpoint_ms / 1000 + 0.3
        found.append(
            Course(
                tuple(_moments(probabilities, listening, playing.endpoint_ms)),
                clip.seconds,
                span.close if span else None,
                max(clip.seconds, least),
                clip.seconds + playing.patience,
            )
        )
    return found


def _moments(
    probabilities: Sequence[float], listening: Listening, endpoint_ms: int
) -> Iterator[Moment]:
    endpointer = Endpointer(listening, endpoint_ms)
    for probability in probabilities:
        for verdict in endpointer.heard(probability):
            at = piece(endpointer.heard_samples / RATE)
            yield Moment(at, *_told(verdict))


def _told(verdict: Verdict) -> tuple[What, float]:
    if isinstance(verdict, Onset):
        return "onset", verdict.at / RATE
    if isinstance(verdict, Resumed):
        return "resumed", verdict.at / RATE
    return "silence" if isinstance(verdict, Silence) else "endpoint", verdict.last / RATE

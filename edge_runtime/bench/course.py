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
    on until `least` at least, and `most` at most. It is spoken `pace` times as fast as the others.
    """

    moments: tuple[Moment, ...]
    seconds: float
    close: float | None
    least: float
    most: float
    pace: float = 1.0


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
    told = [tuple(_moments(each, listening, playing.endpoint_ms)) for each in judged]
    found = []
    for clip, moments, pace in zip(clips, told, _paces(clips, told), strict=True):
        span = energy.speech(clip.pcm)
        least = (span.close if span else clip.seconds) + playing.endpoint_ms / 1000 + 0.3
        found.append(
            Course(
                moments,
                clip.seconds,
                span.close if span else None,
                max(clip.seconds, least),
                clip.seconds + playing.patience,
                pace,
            )
        )
    return found


def _paces(clips: Sequence[Clip], told: Sequence[Sequence[Moment]]) -> list[float]:
    """Words of their transcripts a second of speech, of what all have; 1 where nothing tells."""
    words = [len(clip.reference.split()) for clip in clips]
    spoken = [_spoken(moments) for moments in told]
    known = [(count, seconds) for count, seconds in zip(words, spoken, strict=True) if count]
    mean = sum(count for count, _ in known) / max(1e-9, sum(seconds for _, seconds in known))
    return [
        count / seconds / mean if count and seconds else 1.0
        for count, seconds in zip(words, spoken, strict=True)
    ]


def _spoken(moments: Sequence[Moment]) -> float:
    """Seconds from each onset to its endpoint's last word."""
    ends = sum(each.place for each in moments if each.what == "endpoint")
    onsets = [each.place for each in moments if each.what == "onset"]
    return ends - sum(onsets[: sum(each.what == "endpoint" for each in moments)])


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

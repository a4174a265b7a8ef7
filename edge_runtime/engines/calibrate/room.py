"""How loud the room is when nobody speaks, and where the voice detector's threshold should lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_runtime.audio import FRAME, RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.audio.vad import VoiceDetector, pieces
from edge_runtime.config import Listening

LOWEST, HIGHEST = 0.3, 0.8
"""No threshold outside these is suggested, whatever was recorded."""

ENOUGH = 10.0
"""Seconds of what is surely no speech, and of what surely is, that a suggestion needs."""

_NOISE = 99.9
_SPEECH = 5.0
_QUIET = 0.1
_VOICED_DB = 10.0
_SILENCE_DB = -100.0


@dataclass(frozen=True)
class Heard:
    """A recording's `levels`, mean squares, and speech `probabilities`, both (frames,) of 32 ms."""

    levels: NDArray[np.float64]
    probabilities: NDArray[np.float64]

    def spoken(self, threshold: float) -> float:
        """Seconds in which the detector hears speech."""
        return float(np.count_nonzero(self.probabilities >= threshold)) * FRAME / RATE


class Room(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`threshold` is for `listening.threshold`, `reason` says in a sentence why.

    `floor_db` is the median level without speech in dB of full scale (a full-scale square wave
    has 0), None where nothing without speech was heard; `seconds` is how long that was.
    """

    floor_db: float | None
    seconds: float
    threshold: float
    reason: str


def listen(detector: VoiceDetector, samples: Samples) -> Heard:
    """What the detector says of (n,) samples, in a stream of its own; part frames are left out."""
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    slot = detector.open()
    try:
        found = [heard for piece in pieces(samples) for heard in detector.hear([slot], [piece])[0]]
    finally:
        detector.close(slot)
    return Heard(
        np.square(frames, dtype=np.float64).mean(axis=1), np.asarray(found, dtype=np.float64)
    )


def study(
    empty: Sequence[Heard], speech: Sequence[Heard], listening: Listening | None = None
) -> Room:
    """The noise floor and a threshold, from recordings without and with speech.

    What is surely no speech is all of `empty`; what surely is, the frames of `speech` within
    10 dB of their recording's 95th percentile. Between the probabilities that 99.9 % of the
    one stay under and 95 % of the other reach, the threshold of `listening` is kept when it
    lies there, else the middle is taken; where they overlap, what keeps the room out; always
    within 0.3 to 0.8. Without `empty` only the floor
    is found, where the detector is sure that nobody speaks; the threshold is kept, because
    its own opinion cannot correct it.
    """
    usual = (listening or Listening()).threshold
    quiet = _joined([each.probabilities for each in empty])
    if not empty:
        levels = _joined([each.levels[each.probabilities < _QUIET] for each in speech])
    else:
        levels = _joined([each.levels for each in empty])
    voiced = _joined([each.probabilities[_voiced(each.levels)] for each in speech])
    seconds = len(levels) * FRAME / RATE
    threshold, reason = _threshold(quiet, voiced, usual)
    floor = _decibels(float(np.median(levels))) if len(levels) else None
    return Room(floor, seconds, threshold, reason)


def _threshold(
    quiet: NDArray[np.float64], voiced: NDArray[np.float64], usual: float
) -> tuple[float, str]:
    for what, frames in (("without", quiet), ("with", voiced)):
        seconds = len(frames) * FRAME / RATE
        if seconds < ENOUGH:
            return usual, (
                f"the usual {usual:g} is kept: {seconds:.0f} s of recordings {what} speech are too "
                f"few to choose by, {ENOUGH:.0f} s would do"
            )
    top = float(np.percentile(quiet, _NOISE))
    low = float(np.percentile(voiced, _SPEECH))
    between = (
        f"without speech the detector stays under {top:.2f} for {_NOISE:g} % of the time, and in "
        f"95 % of loud speech it reaches {low:.2f}"
    )
    if top < usual <= low:
        return usual, f"the usual {usual:g} is kept: {between}"
    if top < low:
        chosen = _bounded((top + low) / 2)
        return chosen, f"{chosen:g} lies between: {between}"
    # what keeps the room out comes first: words of nobody are worse than a late onset
    chosen = usual if top < usual else _bounded(top)
    missed = 100 * float((voiced < chosen).mean())
    return chosen, (
        f"speech and the room overlap: {between}; {chosen:g} would miss {missed:.0f} % of it"
    )


def _bounded(threshold: float) -> float:
    return round(min(max(threshold, LOWEST), HIGHEST), 2)


def _voiced(levels: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Frames that are surely speech in a recording of it, unless all is silence."""
    if not len(levels):
        return np.zeros(0, np.bool_)
    top = float(np.percentile(levels, 95))
    return (levels >= top * 10 ** (-_VOICED_DB / 10)) & (top > 10 ** (_SILENCE_DB / 10))


def _decibels(level: float) -> float:
    return max(10 * float(np.log10(max(level, 1e-20))), _SILENCE_DB)


def _joined(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros(0), *parts])

"""Where turns begin and end, from the voice detector's probabilities: a pure state machine."""

from __future__ import annotations

from dataclasses import dataclass

from edge_runtime.audio import FRAME, RATE
from edge_runtime.config import Listening

ENDPOINT_MS_MIN = 200
ENDPOINT_MS_MAX = 10_000
"""The endpoints that configuration and protocol accept, in milliseconds."""

_FORGET = 320 * RATE // 1000


@dataclass(frozen=True)
class Onset:
    """There is speech, and the run of frames that proves it began at sample `at`."""

    at: int


@dataclass(frozen=True)
class Silence:
    """Speech has paused: its last frame ended at sample `last`."""

    last: int


@dataclass(frozen=True)
class Resumed:
    """Speech goes on, from sample `at`, after a silence that was no endpoint."""

    at: int


@dataclass(frozen=True)
class Endpoint:
    """The turn is over: its last frame of speech ended at sample `last`."""

    last: int


Verdict = Onset | Silence | Resumed | Endpoint


class Endpointer:
    """One stream's turns. Per turn: `Onset (Silence Resumed)* Silence Endpoint`.

    A frame is speech when its probability reaches `listening.threshold`, within a turn
    already `listening.release` (weak words in noise hang on to the others). An onset needs
    `evidence` frames of speech, one of them `strong`, in a run without 320 ms of anything
    else. `Silence` comes `tail_ms` after the last speech, `Endpoint` comes `endpoint_ms`
    after it, never before the `Silence`: a smaller endpoint counts as `tail_ms`.
    The detector goes on saying speech for about `lag_ms` after it ended: that much of the
    silence is taken as heard already. Times round up to frames of 32 ms; positions are
    absolute samples.
    """

    def __init__(self, listening: Listening, endpoint_ms: int) -> None:
        self._threshold = listening.threshold
        self._release = min(listening.release, listening.threshold)
        self._strong = listening.strong
        self._evidence = listening.evidence
        self._tail = listening.tail_ms * RATE // 1000
        lag = listening.lag_ms * RATE // 1000
        self._endpoint = max(endpoint_ms * RATE // 1000 - lag, self._tail)
        # A run that never gets its strong frame must not ask for ever more audio to be kept.
        self._reach = listening.cap_ms * RATE // 2000
        self._at = 0
        self._last = 0
        self._quiet = 0
        self._speaking = False
        self._silent = False
        self._run: int | None = None
        self._frames = 0
        self._proven = False

    @property
    def silent(self) -> bool:
        """In a turn whose speech has paused (`Silence` came, `Resumed` did not)."""
        return self._silent

    @property
    def last(self) -> int:
        """The sample where the newest frame of speech ended, 0 before any."""
        return self._last

    @property
    def heard_samples(self) -> int:
        """The sample where the next frame begins."""
        return self._at

    @property
    def onset_pending(self) -> int | None:
        """Where the next `Onset` would be: start of a run that still lacks evidence.

        The audio from there on (and the padding before) must be kept; it never lies
        further back than half the length cap.
        """
        return self._run

    def heard(self, probability: float) -> list[Verdict]:
        """What the next 512 samples change, given how probable speech is in them (0 to 1)."""
        start = self._at
        self._at = start + FRAME
        if probability >= (self._release if self._speaking else self._threshold):
            self._quiet = 0
            self._last = self._at
            return self._speech(start, probability >= self._strong)
        self._quiet += FRAME
        return self._pause()

    def skip(self, samples: int) -> None:
        """`samples` were dropped unheard: they count in positions, not as silence."""
        self._at += samples

    def restart(self) -> None:
        """End the turn and forget any run: the next frame is judged on its own (a flush)."""
        self._speaking = self._silent = False
        self._forget()

    def _speech(self, start: int, strong: bool) -> list[Verdict]:
        if self._speaking:
            if not self._silent:
                return []
            self._silent = False
            return [Resumed(start)]
        if self._run is None:
            self._run = start
        self._frames += 1
        self._proven = self._proven or strong
        self._run = max(self._run, self._at - self._reach)
        if self._frames < self._evidence or not self._proven:
            return []
        onset = Onset(self._run)
        self._forget()
        self._speaking = True
        return [onset]

    def _pause(self) -> list[Verdict]:
        if not self._speaking:
            if self._quiet >= _FORGET:
                self._forget()
            return []
        verdicts: list[Verdict] = []
        if not self._silent and self._quiet >= self._tail:
            self._silent = True
            verdicts.append(Silence(self._last))
        if self._quiet >= self._endpoint:
            self._speaking = self._silent = False
            verdicts.append(Endpoint(self._last))
        return verdicts

    def _forget(self) -> None:
        self._run = None
        self._frames = 0
        self._proven = False

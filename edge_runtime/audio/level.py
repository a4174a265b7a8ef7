"""Whether a microphone is set too loud, too low, or hears nothing at all."""

from __future__ import annotations

from collections import deque

import numpy as np

from edge_runtime.audio.ring import Samples

_FULL = 0.999  # what a converter gives at its end: 32767 of 32768
_CLIPPED = 0.001  # share of a second's samples
_CALM = 10  # seconds
_SPOKEN_DB = 15.0  # speech is so much above the quiet between
_LOW_DB = -45.0
_WINDOW = 30  # seconds


class Level:
    """Watches mono float32 blocks of a rate, before they are cut to ±1.

    Each warning is given once, and again only after it was relieved: ten seconds without a
    clipped sample, speech at a good level, a sample that differs.
    """

    def __init__(self, rate: int) -> None:
        self._tenth = rate // 10
        self._rest: Samples = np.empty(0, np.float32)
        self._told: set[str] = set()
        self._clipped: deque[int] = deque(maxlen=_CALM * 10)
        self._db: deque[float] = deque(maxlen=_WINDOW * 10)
        self._same = self._tenths = 0
        self._last = np.float32(0)

    def push(self, samples: Samples) -> list[tuple[str, str]]:
        """The (code, message) of what is to be warned of from now on."""
        samples = np.concatenate([self._rest, samples]) if len(self._rest) else samples
        whole = len(samples) // self._tenth * self._tenth
        self._rest = samples[whole:].copy()
        said: list[tuple[str, str]] = []
        for tenth in samples[:whole].reshape(-1, self._tenth):
            said += self._heard(tenth)
        return said

    def again(self, rate: int) -> None:
        """The device was opened again: what was measured is of another time."""
        self._tenth = rate // 10
        self._rest = self._rest[:0]
        self._clipped.clear()
        self._db.clear()
        self._same = 0

    def _heard(self, tenth: Samples) -> list[tuple[str, str]]:
        """Take in a tenth of a second."""
        self._clipped.append(int(np.count_nonzero(np.abs(tenth) >= _FULL)))
        steady = bool((tenth == self._last).all())
        self._last = tenth[-1]
        self._same = self._same + 1 if steady else 0
        if not steady:
            power = float(np.mean(np.square(tenth - tenth.mean())))
            self._db.append(10 * float(np.log10(max(power, 1e-12))))
        return [
            *self._told_once(
                "microphone_clipping",
                sum(list(self._clipped)[-10:]) > _CLIPPED * 10 * self._tenth,
                not any(self._clipped),
                "the microphone is too loud and is cut off: turn it down, or lower gain_db",
            ),
            *self._told_once(
                "microphone_silent",
                self._same >= _CALM * 10,
                not steady,
                "the microphone gives nothing at all: is it muted, or the wrong channel?",
            ),
            *self._spoken(),
        ]

    def _spoken(self) -> list[tuple[str, str]]:
        """The loudness of speech, looked at once a second."""
        self._tenths += 1
        if self._tenths % 10 or len(self._db) < _CALM * 10:
            return []
        ordered = sorted(self._db)
        low, loud = ordered[len(ordered) // 10], ordered[len(ordered) * 19 // 20]
        spoken = loud - low > _SPOKEN_DB
        return self._told_once(
            "microphone_quiet",
            spoken and loud < _LOW_DB,
            spoken and loud > _LOW_DB + 3,
            f"speech is very quiet, {-loud:.0f} dB below full scale: raise gain_db",
        )

    def _told_once(
        self, code: str, wrong: bool, relieved: bool, message: str
    ) -> list[tuple[str, str]]:
        if relieved:
            self._told.discard(code)
        if not wrong or code in self._told:
            return []
        self._told.add(code)
        return [(code, message)]

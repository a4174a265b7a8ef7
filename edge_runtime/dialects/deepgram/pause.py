"""The silence after a turn, told once when it is long enough."""

from __future__ import annotations

_LAG_MAX = 1.0
_ONSET = 0.25
"""Seconds within which speech that began is known."""


class Pause:
    """Times are seconds of the client's audio; `seconds` is what is long enough, None for nothing.

    How far the detector has listened is only known when it says something. Between that, a
    client that speaks live hears of the silence when it has sent enough of it; one that is far
    ahead of the detector, with the next event.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end: float | None = None
        self._due: float | None = None

    def began(self, end: float, known: float, sent: float) -> None:
        """The last word ended at `end`, as was known at `known`, when audio to `sent` had come."""
        if self._seconds is None:
            return
        self._end = end
        lag = max(sent - known, 0.0)
        self._due = end + self._seconds + lag + _ONSET if lag <= _LAG_MAX else None

    def due(self, sent: float) -> bool:
        """True once, when audio to `sent` has come and that is enough."""
        if self._due is None or sent < self._due:
            return False
        self._due = None
        return True

    def passed(self, at: float) -> float | None:
        """The end of the last word, once, where silence lasted from there to `at` and that long."""
        if self._seconds is None or self._end is None or at - self._end < self._seconds:
            return None
        end, self._end = self._end, None
        return end

    def broken(self) -> None:
        """Somebody speaks."""
        self._end = self._due = None

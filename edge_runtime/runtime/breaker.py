"""When a device has failed too often to be given more, and when it is tried again."""

from __future__ import annotations

import math
from collections import deque

from edge_runtime.config import Recovering

LONGEST = 3600.0
"""Seconds that no pause is longer than, and after which a device that works is as good as new."""


class Breaker:
    """The failures of one device. Without a clock: `at` is in seconds, ascending."""

    def __init__(self, recovering: Recovering) -> None:
        self._settings = recovering
        self._failed: deque[tuple[float, str]] = deque(maxlen=recovering.failures)
        self._worked = -math.inf
        self._pauses = 0
        self._back = -math.inf

    def worked(self, at: float) -> None:
        """An update went well."""
        self._worked = at

    def failed(self, at: float, session: str) -> bool:
        """An update of that session failed; whether that was once too often. Then it counts anew.

        A session that fails alone, while others go well, is no fault of the device.
        """
        if not self._settings.failures:
            return False
        self._failed.append((at, session))
        first = self._failed[0][0]
        if len(self._failed) < self._settings.failures:
            return False
        alone = len({name for _, name in self._failed}) == 1
        if at - first > self._settings.failure_seconds or (alone and self._worked > first):
            return False
        self._failed.clear()
        return True

    def pause(self) -> float:
        """Seconds until it is tried, from now on; each time twice as many."""
        seconds = self._settings.retry_seconds * 2.0**self._pauses
        self._pauses += seconds < LONGEST
        return min(seconds, max(LONGEST, self._settings.retry_seconds))

    def left(self, at: float) -> None:
        """The device is given nothing more; pauses begin anew where it had worked for long."""
        if at - self._back > LONGEST:
            self._pauses = 0

    def returned(self, at: float) -> None:
        """The device is given work again."""
        self._back = at

"""The latest moment at which a process that is to end is gone, whatever still runs in it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)

SECONDS = 4.8
"""From the signal on: what is promised is 5."""

BACKLOG = 3.0
"""Seconds more where the device hung: what was said meanwhile waits for its finals."""

HUNG = 70
"""Exit code of a process whose device hangs, EX_SOFTWARE of sysexits.h: start it again."""


class Deadline:
    """Set once. A thread of a library that never returns would keep the process for ever."""

    def __init__(self, end: Callable[[int], object] = os._exit) -> None:
        """`end` is what ends the process."""
        self._end = end
        self._timer: threading.Timer | None = None
        self.code = 0
        """What the process is to end with."""

    def set(self, code: int = 0) -> None:
        """From now on there are so many seconds; then the process ends with `code`, or 1."""
        if self._timer is None:
            self.code = code
            seconds = SECONDS + BACKLOG if code == HUNG else SECONDS
            self._timer = threading.Timer(seconds, self._over)
            self._timer.daemon = True
            self._timer.start()

    def lift(self) -> None:
        """All has ended by itself."""
        if self._timer is not None:
            self._timer.cancel()

    def _over(self) -> None:
        _log.critical("the process ends though something still runs in it")
        logging.shutdown()
        self._end(self.code or 1)

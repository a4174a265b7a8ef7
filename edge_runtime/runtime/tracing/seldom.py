"""Keeps a library that complains all the time from filling the log."""

from __future__ import annotations

import logging

EVERY = 600.0
"""Seconds from one complaint that is let through to the next."""


class Seldom(logging.Filter):
    """Lets one record of a logger through in `EVERY` seconds, whatever it says."""

    def __init__(self) -> None:
        super().__init__()
        self._last = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is let through."""
        if record.created - self._last < EVERY:
            return False
        self._last = record.created
        return True


def seldom(name: str) -> None:
    """Let the logger of that name complain seldom from now on."""
    logger = logging.getLogger(name)
    if not any(isinstance(each, Seldom) for each in logger.filters):
        logger.addFilter(Seldom())

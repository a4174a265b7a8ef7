"""Log lines as the journal reads them: a priority before each, and no time, which it has."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

PLAIN = "%(asctime)s %(levelname)s %(name)s: %(message)s"
"""How a line looks anywhere else."""

_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))


def listens(environ: Mapping[str, str] = os.environ, descriptor: int = 2) -> bool:
    """Whether standard error goes to the journal: `JOURNAL_STREAM` names its device and inode."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def marked(text: str, level: int) -> str:
    """`text` with its priority before every line, as sd-daemon(3) has it."""
    priority = next((number for least, number in _PRIORITIES if level >= least), 7)
    return "\n".join(f"<{priority}>{line}" for line in text.split("\n"))


class Lines(logging.Formatter):
    """Formats for the journal; a traceback has the priority of its message."""

    def __init__(self) -> None:
        super().__init__("%(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return marked(super().format(record), record.levelno)


def start_logging(level: str) -> None:
    """Log to standard error from `level` on, in the way of whoever reads it."""
    handler = logging.StreamHandler()
    handler.setFormatter(Lines() if listens() else logging.Formatter(PLAIN))
    logging.basicConfig(level=level, handlers=[handler])

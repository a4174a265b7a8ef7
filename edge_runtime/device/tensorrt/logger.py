"""What TensorRT says, in our log."""

from __future__ import annotations

import logging
import threading
from typing import Any

from edge_runtime.device.tensorrt.module import TensorRT

_log = logging.getLogger(__name__)

# Its "info" tells of every layer and every megabyte.
_LEVELS = {
    "INTERNAL_ERROR": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARNING": logging.WARNING,
    "INFO": logging.DEBUG,
    "VERBOSE": logging.DEBUG,
}


class Said:
    """The error that TensorRT told a thread first: its calls only say that they failed."""

    def __init__(self) -> None:
        self._own = threading.local()

    def put(self, message: str) -> None:
        # What follows the first is what came of it.
        self._own.message = self._own.__dict__.get("message") or message

    def take(self) -> str:
        """What was said since it was last taken, as the end of a sentence; may be empty."""
        message = self._own.__dict__.pop("message", "")
        return f": {message}" if message else ""


def make_logger(tensorrt: TensorRT, said: Said | None = None) -> Any:
    """An `ILogger` that writes to this module's log, and its errors to `said`, too.

    It must outlive every object made with it.
    """
    base = tensorrt.api.ILogger

    class Logger(base):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            base.__init__(self)

        # Called by the library: what is raised here would go nowhere.
        def log(self, severity: Any, msg: str) -> None:
            level = _LEVELS.get(severity.name, logging.WARNING)
            if said is not None and level >= logging.ERROR:
                said.put(msg)
            _log.log(level, "%s", msg)

    return Logger()

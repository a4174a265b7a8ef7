"""What TensorRT says, in our log."""

from __future__ import annotations

import logging
from collections.abc import Callable
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


def make_logger(
    tensorrt: TensorRT, failed: Callable[[str], None] | None = None, *, aloud: bool = True
) -> Any:
    """An `ILogger` that writes to this module's log, and tells errors to `failed`, too.

    Unless `aloud`, all of it is for those who debug. It must outlive every object made with it.
    """
    base = tensorrt.api.ILogger

    class Logger(base):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            base.__init__(self)

        # Called by the library: what is raised here would go nowhere.
        def log(self, severity: Any, msg: str) -> None:
            level = _LEVELS.get(severity.name, logging.WARNING)
            if failed is not None and level >= logging.ERROR:
                failed(msg)
            _log.log(level if aloud else logging.DEBUG, "%s", msg)

    return Logger()

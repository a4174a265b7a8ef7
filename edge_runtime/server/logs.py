"""What the HTTP library logs, without what clients sent: that may be a key."""

from __future__ import annotations

import logging

from aiohttp.http_exceptions import HttpProcessingError


def requests() -> logging.Logger:
    """The logger of requests that failed; that of WebSockets is filtered, too."""
    logging.getLogger("aiohttp.websocket").addFilter(_unknown)
    logger = logging.getLogger("edge_runtime.server.http")
    logger.addFilter(_malformed)
    return logger


def _malformed(record: logging.LogRecord) -> bool:
    """A request that is none is for those who look for it: one line, without its text."""
    if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
        record.msg, record.exc_info = "malformed request from %s", None
        record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return logging.getLogger(record.name).isEnabledFor(logging.DEBUG)
    return True


def _unknown(record: logging.LogRecord) -> bool:
    """Subprotocols that we do not know are nothing to warn of."""
    return "overlap" not in str(record.msg)

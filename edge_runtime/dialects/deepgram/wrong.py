"""Errors in Deepgram's form."""

from __future__ import annotations

import uuid
from typing import Any

from edge_runtime.errors import ProtocolError

_CODES = {
    "key_missing": "INVALID_AUTH",
    "key_unknown": "INVALID_AUTH",
    "too_many_sessions": "TOO_MANY_REQUESTS",
    "too_often": "TOO_MANY_REQUESTS",
}
"""Where Deepgram has a word of its own that clients may look for."""


class Wrong(ProtocolError):
    """A parameter of the request that cannot be taken."""

    def __init__(self, message: str, fix: str, code: str = "bad_request") -> None:
        super().__init__(code, message, fix)


def complaint(error: ProtocolError) -> dict[str, Any]:
    """The JSON that says over HTTP what is wrong."""
    return {
        "err_code": _CODES.get(error.code, error.code),
        "err_msg": str(error),
        "request_id": str(uuid.uuid4()),
    }


def told(code: str, description: str, message: str = "") -> dict[str, Any]:
    """The message that says it on a socket."""
    return {"type": "Error", "variant": code, "description": description, "message": message}

"""Errors in OpenAI's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edge_runtime.errors import ProtocolError

_OURS = frozenset({1001, 1011, 1013})
"""Close codes of what is no fault of the request."""


class Wrong(ProtocolError):
    """A value that cannot be taken; `param` names it."""

    def __init__(
        self, param: str | None, message: str, fix: str, code: str = "invalid_value"
    ) -> None:
        self.param = param
        super().__init__(code, message, fix)


def complaint(error: ProtocolError) -> dict[str, Any]:
    """What is wrong, as the value of `error`."""
    return {
        "message": str(error),
        "type": "server_error" if error.close_code in _OURS else "invalid_request_error",
        "param": getattr(error, "param", None),
        "code": error.code,
    }


def check_language(language: str | None, known: Sequence[str], param: str) -> None:
    """Raises `Wrong` for a language, as ISO 639-1 or with a region, that the model has not."""
    if language and known and language.lower().partition("-")[0] not in known:
        raise Wrong(
            param,
            f"the model does not understand {language[:20]!r}",
            f"Leave it out, or choose one of {', '.join(known)}.",
            "unsupported_language",
        )

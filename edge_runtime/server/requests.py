"""A client's messages, checked: what is wrong is said with its fix and a close code."""

from __future__ import annotations

import re
from typing import get_args

from edge_runtime.audio.endpoint import ENDPOINT_MS_MAX, ENDPOINT_MS_MIN
from edge_runtime.config import nearest
from edge_runtime.errors import ProtocolError
from edge_runtime.events import AnyRequest, Encoding, Flush, Gate, Start, Stop, decode_request

ENCODINGS: tuple[str, ...] = get_args(Encoding)
_RECORDS = {"start": Start, "flush": Flush, "gate": Gate, "stop": Stop}
_UNKNOWN = re.compile(r"unknown field `(?P<field>[^`]*)`(?: - at `(?P<path>[^`]*)`)?")


def read(text: bytes) -> AnyRequest:
    """The request in a text message.

    Raises `ProtocolError`: bad_json, unknown_type, unknown_field, bad_field (close 1007),
    unsupported_encoding (1003).
    """
    try:
        request: AnyRequest = decode_request(text)
    except ProtocolError as error:
        raise _explained(text, error) from None
    if isinstance(request, Start):
        _check(request)
    return request


def _check(start: Start) -> None:
    if not ENDPOINT_MS_MIN <= start.endpoint_ms <= ENDPOINT_MS_MAX:
        raise ProtocolError(
            "bad_endpoint",
            f"endpoint_ms is {start.endpoint_ms}",
            f"Choose {ENDPOINT_MS_MIN} to {ENDPOINT_MS_MAX} ms of silence; 500 is the default.",
        )
    if start.source is not None and start.source.split(":", 1)[0] != "mic":
        raise ProtocolError(
            "bad_source",
            f"unknown source {start.source!r}",
            'Leave "source" out to send audio, or name a microphone: "mic:NAME".',
        )


def _explained(text: bytes, error: ProtocolError) -> ProtocolError:
    if error.code == "bad_json":
        return error
    message = error.message
    unknown = _UNKNOWN.search(message)
    if unknown is not None:
        known = _fields(text, unknown["path"])
        return ProtocolError(
            "unknown_field",
            message,
            f"{nearest(unknown['field'], known)} Leave it out otherwise.",
            1007,
        )
    if "`$.type`" in message or "missing required field `type`" in message:
        return ProtocolError(
            "unknown_type", message, f'"type" is one of {", ".join(_RECORDS)}.', 1007
        )
    if "`$.encoding`" in message:
        return ProtocolError(
            "unsupported_encoding", message, f"Send audio as {', '.join(ENCODINGS)}.", 1003
        )
    return ProtocolError("bad_field", message, "Give the field a value of that type.", 1007)


def _fields(text: bytes, path: str | None) -> tuple[str, ...]:
    if path is not None and path.startswith("$.resume"):
        return ("token", "last_seq")
    kind = re.search(rb'"type"\s*:\s*"(start|flush|gate|stop)"', text)
    record = _RECORDS[kind[1].decode()] if kind else Start
    return ("type", *record.__struct_fields__)

"""Wyoming's events as bytes: a line of JSON, which tells how much JSON and payload follows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import msgspec

from edge_runtime.errors import ProtocolError

DATA = 1 << 16
"""The most bytes of JSON that an event may have: what we read of it is a few words."""

_Length = Annotated[int, msgspec.Meta(ge=0)]
_Values = TypeVar("_Values")


class _Header(msgspec.Struct, frozen=True):
    type: str
    data: dict[str, Any] | None = None
    data_length: _Length | None = None
    payload_length: _Length | None = None


@dataclass(frozen=True)
class Event:
    """One event: `data` are its values, `payload` is audio or nothing."""

    kind: str
    data: dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""

    def values(self, record: type[_Values]) -> _Values:
        """Those that `record` has, checked; raises `ProtocolError`."""
        try:
            return msgspec.convert(self.data, record)
        except msgspec.ValidationError as error:
            raise ProtocolError(
                "bad_field",
                f"{self.kind[:40]} not understood: {error}",
                "Give the field a value of that type.",
                1007,
            ) from None


def following(line: bytes) -> int:
    """Bytes that follow the first line of an event; raises `ProtocolError`."""
    header = _header(line)
    data = header.data_length or 0
    if data > DATA:
        raise ProtocolError(
            "too_big",
            f"{data} bytes of JSON; at most {DATA} are taken",
            "Send audio as the payload of audio-chunk.",
            1009,
        )
    return data + (header.payload_length or 0)


def read(message: bytes) -> Event:
    """The event of a whole message; raises `ProtocolError`.

    Values may be in the first line, after it, or both: those after it hold.
    """
    begin = message.index(b"\n") + 1
    header = _header(message[:begin])
    end = begin + (header.data_length or 0)
    data = header.data or {}
    if end > begin:
        data = {**data, **_decoded(message[begin:end], dict[str, Any])}
    return Event(header.type, data, message[end:])


def encode(kind: str, **data: object) -> bytes:
    """An event without a payload, as the protocol's own library writes it."""
    values = msgspec.json.encode(data) if data else b""
    header = {"type": kind, **({"data_length": len(values)} if data else {})}
    return msgspec.json.encode(header) + b"\n" + values


def _header(line: bytes) -> _Header:
    return _decoded(line, _Header)


def _decoded(text: bytes, kind: type[_Values]) -> _Values:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(
            "bad_json",
            f"not an event: {error}",
            'Send {"type":…,"data_length":…,"payload_length":…} on one line, then as many bytes.',
            1007,
        ) from None

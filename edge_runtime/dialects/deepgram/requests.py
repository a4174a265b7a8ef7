"""The text messages of a live client, checked."""

from __future__ import annotations

import msgspec

from edge_runtime.dialects.deepgram.wrong import Wrong


class Request(msgspec.Struct, frozen=True, tag_field="type"):
    """What a client sends as text; fields that are not known are left out."""


class KeepAlive(Request, frozen=True, tag="KeepAlive"):
    """There is a client still."""


class Finalize(Request, frozen=True, tag="Finalize"):
    """What was sent is to be written down now."""


class CloseStream(Request, frozen=True, tag="CloseStream"):
    """No more audio."""


class Configure(Request, frozen=True, tag="Configure"):
    """Other key terms and features."""

    keyterms: list[str] | None = None


AnyRequest = KeepAlive | Finalize | CloseStream | Configure

_decoder = msgspec.json.Decoder(AnyRequest)


def read(text: bytes) -> AnyRequest:
    """The request in a text message; raises `Wrong`."""
    try:
        request: AnyRequest = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Wrong(
            f"not understood: {error}",
            'Send {"type": "KeepAlive"|"Finalize"|"CloseStream"} as text, audio as binary.',
            "SchemaError",
        ) from None
    return request

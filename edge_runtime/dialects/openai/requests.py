"""The messages of a client of the Realtime interface, checked."""

from __future__ import annotations

import re

import msgspec

from edge_runtime.dialects.openai.settings import Wanted
from edge_runtime.dialects.openai.wrong import Wrong


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """What a client sends; fields that are not known are left out."""

    event_id: str | None = None


class SessionUpdate(Request, frozen=True, kw_only=True, tag="session.update"):
    """Change the session."""

    session: Wanted


class BetaUpdate(Request, frozen=True, kw_only=True, tag="transcription_session.update"):
    """The same, as the beta called it."""

    session: Wanted


class Append(Request, frozen=True, kw_only=True, tag="input_audio_buffer.append"):
    """Audio, in base64."""

    audio: bytes


class Commit(Request, frozen=True, kw_only=True, tag="input_audio_buffer.commit"):
    """What was sent is a turn."""


class Clear(Request, frozen=True, kw_only=True, tag="input_audio_buffer.clear"):
    """What was sent is to be forgotten."""


AnyRequest = SessionUpdate | BetaUpdate | Append | Commit | Clear

_decoder = msgspec.json.Decoder(AnyRequest)
_PATH = re.compile(r"^(?P<said>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)


def read(text: bytes) -> AnyRequest:
    """The request in a text message; raises `Wrong`, which names the field."""
    try:
        request: AnyRequest = _decoder.decode(text)
    except msgspec.ValidationError as error:
        found = _PATH.match(str(error))
        said, path = (found["said"], found["path"]) if found else (str(error), None)
        if path == "type" or "`type`" in said:
            raise Wrong(
                "type",
                f"an event that is not taken: {said}",
                "A transcription session takes session.update and input_audio_buffer.append, "
                ".commit and .clear.",
            ) from None
        raise Wrong(path, f"not understood: {said}", "Correct that field.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Wrong(
            None, f"not a JSON message: {error}", "Send each event as a JSON text.", "invalid_json"
        ) from None
    return request


def event_id(text: bytes) -> str | None:
    """The id that a message gives itself, whatever else is wrong with it."""
    try:
        found = msgspec.json.decode(text, type=dict[str, object]).get("event_id")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, str) else None

"""Other protocols than our own, a translator each: apps that speak them find the same sessions."""

from __future__ import annotations

from collections.abc import Callable

from edge_runtime.config import Dialects
from edge_runtime.dialects.base import Act, Answer, Asked, Dialect, Framed, Said, Way, Wire
from edge_runtime.dialects.recorded import Body, Fields, Recorded

__all__ = [
    "Act",
    "Answer",
    "Asked",
    "Body",
    "Dialect",
    "Fields",
    "Framed",
    "Page",
    "Recorded",
    "Said",
    "Way",
    "Wire",
    "pages",
    "ports",
    "sockets",
    "streams",
    "uploads",
]

Page = Callable[[Asked, str], tuple[int, object]]
"""A status and what is answered as JSON; the last part of the path is given, "" for none."""


def sockets(config: Dialects) -> dict[str, type[Dialect]]:
    """The dialects that are spoken on WebSockets of the main port, by their paths."""
    found: dict[str, type[Dialect]] = {}
    if config.openai:
        from edge_runtime.dialects.openai.realtime import Realtime

        found["/v1/realtime"] = Realtime
    if config.deepgram:
        from edge_runtime.dialects.deepgram.listen import Listen

        found["/v1/listen"] = Listen
    return found


def ports(config: Dialects) -> dict[int, type[Dialect]]:
    """The dialects that are spoken on WebSockets of a port of their own, whatever the path."""
    found: dict[int, type[Dialect]] = {}
    if config.vosk_port:
        from edge_runtime.dialects.vosk import Vosk

        found[config.vosk_port] = Vosk
    if config.sherpa_onnx_port:
        from edge_runtime.dialects.sherpa_onnx import SherpaOnnx

        found[config.sherpa_onnx_port] = SherpaOnnx
    if config.whisper_live_port:
        from edge_runtime.dialects.whisper_live import WhisperLive

        found[config.whisper_live_port] = WhisperLive
    return found


def streams(config: Dialects) -> dict[int, type[Framed]]:
    """The dialects that are spoken on plain connections, by their ports."""
    found: dict[int, type[Framed]] = {}
    if config.wyoming_port:
        from edge_runtime.dialects.wyoming.asr import Wyoming

        found[config.wyoming_port] = Wyoming
    return found


def uploads(config: Dialects) -> dict[str, type[Recorded]]:
    """The dialects in which whole recordings are posted to the main port, by their paths."""
    found: dict[str, type[Recorded]] = {}
    if config.openai:
        from edge_runtime.dialects.openai.transcriptions import Transcriptions
        from edge_runtime.dialects.openai.translations import Translations

        found["/v1/audio/transcriptions"] = Transcriptions
        found["/v1/audio/translations"] = Translations
    if config.deepgram:
        from edge_runtime.dialects.deepgram.prerecorded import Prerecorded

        found["/v1/listen"] = Prerecorded
    return found


def pages(config: Dialects) -> dict[tuple[str, str], Page]:
    """What else clients ask for, by method and path; `{name}` is the last part of some."""
    found: dict[tuple[str, str], Page] = {}
    if config.openai:
        from edge_runtime.dialects.openai.models import model, models

        found["GET", "/v1/models"] = models
        found["GET", "/v1/models/{name}"] = model
    return found

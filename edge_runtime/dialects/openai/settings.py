"""What a client of the Realtime interface asks for, in the form of today and that of the beta."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from edge_runtime.audio.codec import RATES
from edge_runtime.audio.endpoint import ENDPOINT_MS_MAX, ENDPOINT_MS_MIN
from edge_runtime.dialects.base import Asked
from edge_runtime.dialects.openai.wrong import Wrong, check_language
from edge_runtime.events import Encoding, Start

_EAGERNESS = {"low": 2000, "medium": 1000, "auto": 1000, "high": 500}
"""ms of silence that end a turn where a client wants its end told by the meaning."""

_TYPES: dict[str, Encoding] = {
    "audio/pcm": "pcm_s16le", "audio/pcmu": "mulaw", "audio/pcma": "alaw",
}  # fmt: skip
_BETA = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_RATE = 24_000


class Detection(msgspec.Struct, frozen=True):
    """What ends a turn."""

    type: Literal["server_vad", "semantic_vad"] = "server_vad"
    silence_duration_ms: int | None = None
    eagerness: Literal["low", "medium", "high", "auto"] | None = None


class Format(msgspec.Struct, frozen=True):
    """How audio is written."""

    type: str
    rate: int | None = None


class Transcription(msgspec.Struct, frozen=True):
    """Of what is to be written."""

    model: str | None = None
    language: str | None = None
    prompt: str | None = None


class Input(msgspec.Struct, frozen=True):
    """Where the audio comes from; what is not set stays as it is."""

    format: Format | UnsetType | None = UNSET
    transcription: Transcription | UnsetType | None = UNSET
    turn_detection: Detection | UnsetType | None = UNSET


class Audio(msgspec.Struct, frozen=True):
    """Of which only the input matters here."""

    input: Input = Input()


class Wanted(msgspec.Struct, frozen=True):
    """A session as a client describes it: `audio` today, the others in the beta."""

    type: str | None = None
    audio: Audio = Audio()
    input_audio_format: str | UnsetType = UNSET
    input_audio_transcription: Transcription | UnsetType | None = UNSET
    turn_detection: Detection | UnsetType | None = UNSET


@dataclass(frozen=True)
class Settings:
    """A session's settings as they are; `detection` is None where the client commits."""

    format: str = "audio/pcm"
    rate: int = _RATE
    detection: Detection | None = field(default_factory=Detection)
    transcription: Transcription = field(default_factory=Transcription)
    id: str = field(default_factory=lambda: f"sess_{secrets.token_hex(8)}")

    @property
    def start(self) -> Start:
        """The session in the native protocol."""
        return Start(
            encoding=_TYPES[self.format], sample_rate=self.rate, endpoint_ms=self.endpoint_ms
        )

    @property
    def endpoint_ms(self) -> int:
        """Silence that ends a turn."""
        wanted = 500
        if self.detection is not None and self.detection.type == "semantic_vad":
            wanted = _EAGERNESS[self.detection.eagerness or "auto"]
        elif self.detection is not None and self.detection.silence_duration_ms is not None:
            wanted = self.detection.silence_duration_ms
        return min(max(wanted, ENDPOINT_MS_MIN), ENDPOINT_MS_MAX)

    def updated(self, wanted: Wanted, asked: Asked) -> tuple[Settings, Asked]:
        """With what a client wants, and of the model that it names; raises `Wrong`."""
        if wanted.type not in {None, "transcription"}:
            raise Wrong(
                "session.type",
                f"this server only transcribes, and the session is {wanted.type[:40]!r}",
                'Send "type": "transcription".',
            )
        given = wanted.audio.input
        changed = self
        beta = wanted.input_audio_format
        if beta is not UNSET:
            if beta not in _BETA:
                raise _format("session.input_audio_format", beta, ", ".join(_BETA))
            changed = changed._written(Format(_BETA[beta]))
        if given.format:
            changed = changed._written(given.format)
        for said in (wanted.input_audio_transcription, given.transcription):
            if isinstance(said, Transcription):
                asked = asked.of(said.model)
                check_language(said.language, asked.languages, "session.audio.input.transcription")
                changed = replace(changed, transcription=said)
        for detection in (wanted.turn_detection, given.turn_detection):
            if detection is not UNSET:
                changed = replace(changed, detection=detection)
        return changed, asked

    def _written(self, form: Format) -> Settings:
        where = "session.audio.input.format"
        if form.type not in _TYPES:
            raise _format(where, form.type, ", ".join(_TYPES))
        usual = _RATE if form.type == "audio/pcm" else 8000
        rate = usual if form.rate is None else form.rate
        if rate not in RATES:
            raise _format(where, str(rate), f"{usual}, or of {', '.join(map(str, RATES))}")
        return replace(self, format=form.type, rate=rate)

    def described(self, model: str, *, beta: bool) -> dict[str, Any]:
        """As `session.created` and `session.updated` tell it: what is in force."""
        spoken = msgspec.to_builtins(self.transcription)
        transcription = {**spoken, "model": spoken["model"] or model}
        detection = self._detection()
        whole: dict[str, Any] = {"id": self.id, "object": "realtime.transcription_session"}
        if beta:
            names = {ga: name for name, ga in _BETA.items()}
            return whole | {
                "input_audio_format": names[self.format],
                "input_audio_transcription": transcription,
                "input_audio_noise_reduction": None,
                "turn_detection": detection,
            }
        form = {"type": self.format} | ({"rate": self.rate} if self.format == "audio/pcm" else {})
        heard = {
            "format": form,
            "noise_reduction": None,
            "transcription": transcription,
            "turn_detection": detection,
        }
        return whole | {"type": "transcription", "audio": {"input": heard}, "include": None}

    def _detection(self) -> dict[str, Any] | None:
        if self.detection is None:
            return None
        if self.detection.type == "semantic_vad":
            return {"type": "semantic_vad", "eagerness": self.detection.eagerness or "auto"}
        return {
            "type": "server_vad",
            "threshold": 0.5,
            "prefix_padding_ms": 300,
            "silence_duration_ms": self.endpoint_ms,
        }


def _format(param: str, value: str, known: str) -> Wrong:
    return Wrong(param, f"audio as {value[:40]!r} is not taken", f"Choose one of {known}.")

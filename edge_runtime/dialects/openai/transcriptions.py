"""`POST /v1/audio/transcriptions`: a recording in a form, its text in one of five formats."""

from __future__ import annotations

import math
import zlib
from typing import Any, Literal, get_args

import msgspec

from edge_runtime.dialects.base import Asked
from edge_runtime.dialects.growth import Growth
from edge_runtime.dialects.openai.wrong import Wrong, check_language, complaint
from edge_runtime.dialects.recorded import Body, Fields, Recorded
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Closed, Error, Event, Final
from edge_runtime.subtitles import cues, srt, vtt
from edge_runtime.transcript import Transcript

Format = Literal["json", "text", "srt", "verbose_json", "vtt"]
_LANGUAGES = {
    "de": "german", "en": "english", "es": "spanish", "fr": "french", "it": "italian",
    "nl": "dutch", "pt": "portuguese",
}  # fmt: skip
_PLAIN = "text/plain; charset=utf-8"


class Transcriptions(Recorded):
    """The fields of a form, checked, and the answer in the format that they ask for."""

    name = "openai"
    field = "file"
    ways = ("bearer",)

    def __init__(self, asked: Asked, fields: Fields) -> None:
        """Raises `Wrong` for a value that is not taken; fields that are not known are left out."""
        super().__init__(self._of(asked, _one(fields, "model")), fields)
        form = _one(fields, "response_format") or "json"
        if form not in get_args(Format):
            raise Wrong(
                "response_format",
                f"the format {form[:40]!r} is not served",
                f"Choose one of {', '.join(get_args(Format))}.",
            )
        self._format: Format = form  # type: ignore[assignment]
        self._times = _granularities(fields, form)
        self.words = "word" in self._times or form in {"srt", "vtt"}
        self.streams = (_one(fields, "stream") or "false").lower() in {"true", "1"}
        if self.streams and form not in {"json", "text"}:
            raise Wrong(
                "stream",
                f"{form} is not streamed",
                "Leave stream out, or choose json as response_format.",
            )
        language = _one(fields, "language")
        check_language(language, self.asked.languages, "language")
        self.language = self.asked.spoken(language)
        _check_temperature(_one(fields, "temperature"))
        self._growth = Growth()

    @staticmethod
    def _of(asked: Asked, model: str | None) -> Asked:
        """What is asked, of the model that does it."""
        return asked.of(model)

    def piece(self, event: Event) -> bytes:
        """A delta of each final, `done` at the end; deltas joined are the text."""
        if isinstance(event, Final):
            delta = self._growth.final(event.text)
            return _sent({"type": "transcript.text.delta", "delta": delta}) if delta else b""
        if isinstance(event, Closed):
            return _sent(
                {
                    "type": "transcript.text.done",
                    "text": self._growth.text,
                    "usage": _usage(event.audio_seconds),
                }
            )
        if isinstance(event, Error):
            error = ProtocolError(event.code, event.message, event.fix, 1011)
            return _sent(self.complaint(error))
        return b""

    def whole(self, transcript: Transcript) -> Body:
        """The transcript in the format that was asked for."""
        if self._format == "text":
            return Body(_PLAIN, f"{transcript.text}\n".encode())
        if self._format == "srt":
            return Body(_PLAIN, srt(cues(transcript.spoken)).encode())
        if self._format == "vtt":
            return Body("text/vtt; charset=utf-8", vtt(cues(transcript.spoken)).encode())
        said = {"text": transcript.text, "usage": _usage(transcript.seconds)}
        if self._format == "verbose_json":
            said = self._verbose(transcript) | said
        return Body("application/json", msgspec.json.encode(said))

    def _verbose(self, transcript: Transcript) -> dict[str, Any]:
        language = self._written(transcript)
        said: dict[str, Any] = {
            "task": self.task,
            "language": _LANGUAGES.get(language, language),
            "duration": transcript.seconds,
        }
        if "segment" in self._times:
            said["segments"] = [_segment(n, final) for n, final in enumerate(transcript.spoken)]
        if "word" in self._times:
            said["words"] = [
                {"word": word.text.strip(), "start": word.start, "end": word.end}
                for final in transcript.spoken
                for word in final.words or ()
            ]
        return said

    def _written(self, transcript: Transcript) -> str:
        """The language of the text."""
        heard = (final.language for final in transcript.spoken if final.language)
        return next(heard, next(iter(self.asked.languages), ""))

    @staticmethod
    def complaint(error: ProtocolError) -> dict[str, Any]:
        """OpenAI's form of an error."""
        return {"error": complaint(error)}


def _segment(number: int, final: Final) -> dict[str, Any]:
    text = final.text.strip()
    raw = text.encode()
    return {
        "id": number,
        "seek": round(final.start * 100),
        "start": final.start,
        "end": final.end,
        "text": text,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": final.logprob,
        "compression_ratio": round(len(raw) / len(zlib.compress(raw)), 3),
        "no_speech_prob": 0.0,
    }


def _usage(seconds: float) -> dict[str, Any]:
    return {"type": "duration", "seconds": math.ceil(seconds)}


def _sent(said: dict[str, Any]) -> bytes:
    """A server-sent event."""
    return b"data: " + msgspec.json.encode(said) + b"\n\n"


def _one(fields: Fields, name: str) -> str | None:
    values = fields.get(name)
    return values[-1].strip() if values else None


def _granularities(fields: Fields, form: str) -> set[str]:
    name = "timestamp_granularities"
    asked = {value.strip() for each in (name, f"{name}[]") for value in fields.get(each, ())}
    if asked and form != "verbose_json":
        raise Wrong(
            name,
            f"{form} has no timestamps",
            "Choose verbose_json as response_format, or leave them out.",
        )
    if asked - {"word", "segment"}:
        raise Wrong(name, f"there are no timestamps of {min(asked)[:40]!r}", "word, segment.")
    return asked or {"segment"}


def _check_temperature(text: str | None) -> None:
    try:
        good = text is None or 0 <= float(text) <= 1
    except ValueError:
        good = False
    if not good:
        raise Wrong("temperature", f"the temperature is {str(text)[:20]!r}", "Choose 0 to 1.")

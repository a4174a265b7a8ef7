"""The parameters of Deepgram's requests, checked; those that are not known are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge_runtime.audio.codec import CHANNELS_MAX, RATES
from edge_runtime.audio.endpoint import ENDPOINT_MS_MAX
from edge_runtime.dialects.base import Asked
from edge_runtime.dialects.deepgram.wrong import Wrong
from edge_runtime.events import Encoding, Start

Query = Mapping[str, str]

_ENCODINGS: dict[str, Encoding] = {
    "linear16": "pcm_s16le",
    "linear32": "pcm_f32le",  # "32-bit, little endian, floating-point" in Deepgram's documentation
    "mulaw": "mulaw",
    "alaw": "alaw",
}
_TELEPHONE = 8000
_ENDPOINT_MS = 300
"""A shorter silence does not end a turn."""

_UNENDED_MS = 500
"""Silence that cuts segments where none ends a turn."""

_UTTERANCE_END_MS_MIN = 1000


@dataclass(frozen=True)
class Format:
    """How audio is written; `rate` in Hz."""

    encoding: Encoding
    rate: int
    channels: int

    def check(self) -> Format:
        """Itself; raises `Wrong` for a rate or a number of channels that is not taken."""
        if self.rate not in RATES:
            raise Wrong(
                f"a sample_rate of {self.rate} Hz is not taken",
                f"Use one of {', '.join(map(str, RATES))}.",
            )
        if not 1 <= self.channels <= CHANNELS_MAX:
            raise Wrong(f"{self.channels} channels are not taken", f"Send 1 to {CHANNELS_MAX}.")
        return self


@dataclass(frozen=True)
class Settings:
    """What a live session is asked to do.

    `format` is None where the audio's own header tells it; `ends`: silence ends turns.
    `utterance_end` is the silence in seconds that is told, None for none.
    """

    format: Format | None
    interim: bool
    endpoint_ms: int
    ends: bool
    utterance_end: float | None
    vad_events: bool
    multichannel: bool

    def start(self, heard: Format) -> Start:
        """The session in the native protocol."""
        if self.multichannel and heard.channels > 1:
            raise Wrong(
                f"{heard.channels} channels are not transcribed apart",
                "Leave multichannel out to have them mixed, or open a connection for each.",
            )
        return Start(
            encoding=heard.encoding,
            sample_rate=heard.rate,
            channels=heard.channels,
            partials=self.interim,
            words=True,
            endpoint_ms=self.endpoint_ms,
        )


def live(asked: Asked) -> Settings:
    """The settings of a live session; raises `Wrong`, which names the parameter."""
    query = asked.query
    check(query, asked.languages)
    interim = flag(query, "interim_results")
    ends = query.get("endpointing", "").lower() != "false"
    settings = Settings(
        format=_format(query),
        interim=interim,
        endpoint_ms=_endpoint_ms(query) if ends else _UNENDED_MS,
        ends=ends,
        utterance_end=_utterance_end(query, interim=interim),
        vad_events=flag(query, "vad_events"),
        multichannel=flag(query, "multichannel"),
    )
    if settings.format is not None:
        settings.start(settings.format)  # so that it is refused before there is a socket
    return settings


def check(query: Query, languages: Sequence[str]) -> None:
    """Raises `Wrong` for what neither live audio nor recordings are given."""
    language = query.get("language")
    several = len(languages) > 1 and language == "multi"
    known = several or not language or language.lower().partition("-")[0] in languages
    if language and languages and not known:
        raise Wrong(
            f"the model does not understand the language {language[:20]!r}",
            f"Leave it out, or choose one of {', '.join(languages)}.",
            "unsupported_language",
        )
    if query.get("callback"):
        raise Wrong(
            "results are not sent to a callback", "Leave it out: they come on this connection."
        )
    if query.get("redact", "").lower() not in {"", "false"}:  # or who asks would rely on it
        raise Wrong("nothing is redacted here", "Leave redact out, and redact the text yourself.")


def flag(query: Query, name: str) -> bool:
    """A parameter that is true or false, false where it is missing."""
    text = query.get(name, "").lower()
    if text not in {"true", "false", "1", "0", ""}:
        raise Wrong(f"{name} is {text[:20]!r}", "Set it to true or false.")
    return text in {"true", "1"}


def _number(query: Query, name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Wrong(f"{name} is {text[:20]!r}", "Set it to a whole number.")
    return int(text)


def _format(query: Query) -> Format | None:
    """How the audio is written that has no header; None where it has one."""
    name = query.get("encoding", "").lower()
    rate, channels = _number(query, "sample_rate"), _number(query, "channels")
    if not name:
        return None
    if name not in _ENCODINGS:
        raise Wrong(
            f"audio as {name[:20]!r} is not taken live",
            f"Send it as {', '.join(_ENCODINGS)}, or leave encoding out and begin with the header "
            "of a WAV file.",
            "unsupported_encoding",
        )
    if rate is None:
        if name.startswith("linear"):
            raise Wrong(f"{name} came without a sample_rate", "Add it, for example 16000.")
        rate = _TELEPHONE
    return Format(_ENCODINGS[name], rate, 1 if channels is None else channels).check()


def _endpoint_ms(query: Query) -> int:
    text = query.get("endpointing", "").lower()
    wanted = 0 if text == "true" else _number(query, "endpointing") or 0
    return min(max(wanted, _ENDPOINT_MS), ENDPOINT_MS_MAX)


def _utterance_end(query: Query, *, interim: bool) -> float | None:
    wanted = _number(query, "utterance_end_ms")
    if wanted is None:
        return None
    if wanted < _UTTERANCE_END_MS_MIN:
        raise Wrong(
            f"utterance_end_ms is {wanted}",
            f"Choose {_UTTERANCE_END_MS_MIN} or more, or endpointing.",
        )
    if not interim:
        raise Wrong("utterance_end_ms came without interim_results", "Add interim_results=true.")
    return wanted / 1000

"""What `transcribe` writes for one recording: text, JSON or subtitles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from edge_runtime.cli.live import timed_words
from edge_runtime.events import Final
from edge_runtime.subtitles import cues, srt, vtt
from edge_runtime.transcript import Transcript

Format = Literal["text", "json", "srt", "vtt"]


def render(transcript: Transcript, form: Format, *, label: bool = False) -> str:
    """The transcript in a format, with its closing newline; `label` puts the name before lines."""
    return _RENDERERS[form](transcript, label)


def _text(transcript: Transcript, label: bool) -> str:
    if any(final.words for final in transcript.finals):
        lines = [
            line
            for final in transcript.spoken
            for line in (final.text.strip(), timed_words(final))
            if line
        ]
    else:
        lines = list(transcript.turns)
    prefix = f"{transcript.name}: " if label else ""
    return "".join(f"{prefix}{line}\n" for line in "\n".join(lines).splitlines())


def _json(transcript: Transcript, label: bool) -> str:
    segments = [_segment(final) for final in transcript.finals]
    whole = {
        "file": transcript.name,
        "seconds": round(transcript.seconds, 3),
        "text": transcript.text,
        "segments": segments,
    }
    return msgspec.json.encode(whole).decode() + "\n"


def _segment(final: Final) -> dict[str, object]:
    """A final without what only a live client needs."""
    fields = msgspec.to_builtins(final)
    return {name: value for name, value in fields.items() if name not in ("type", "seq")}


def _srt(transcript: Transcript, label: bool) -> str:
    return srt(cues(transcript.spoken))


def _vtt(transcript: Transcript, label: bool) -> str:
    return vtt(cues(transcript.spoken))


_RENDERERS: dict[Format, Callable[[Transcript, bool], str]] = {
    "text": _text,
    "json": _json,
    "srt": _srt,
    "vtt": _vtt,
}

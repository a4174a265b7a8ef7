"""WhisperLive's server: the client's options, then audio; the latest segments out."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, Literal

import msgspec
import numpy as np

from edge_runtime.dialects.base import Act, Answer, Asked, Dialect, Said, Wire
from edge_runtime.errors import ProtocolError
from edge_runtime.events import (
    Closed,
    Encoding,
    Error,
    Final,
    Partial,
    Ready,
    Start,
    Stop,
    Word,
)

_END = b"END_OF_AUDIO"
_ENCODINGS: dict[str, Encoding] = {
    "float32": "pcm_f32le", "int16": "pcm_s16le", "uint8": "pcm_s16le",
}  # fmt: skip
_UID = 200
"""The longest name of a client: it is in everything that it is told."""

_SEGMENTS = 100
"""The most segments that are told again and again."""


class Options(msgspec.Struct, frozen=True):
    """What a client says first; of its many options, those that change something."""

    uid: str
    language: str | None = None
    model: str | None = None
    audio_format: Literal["float32", "int16", "uint8"] | None = None
    word_timestamps: bool | None = None
    send_last_n_segments: int | None = None
    task: str | None = None
    enable_translation: bool | None = None


_decoder = msgspec.json.Decoder(Options, strict=False)


class WhisperLive(Dialect):
    """One connection. Every message has the client's name and its latest segments."""

    name = "whisper-live"
    begin = 'Send {"uid":"…"} as the first message, then float32 samples at 16 kHz.'
    patient = False
    ways = ("bearer", "pair", "query")
    protocols = ("bearer",)
    lull = 2.0

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._options: Options | None = None
        self._completed: deque[dict[str, Any]] = deque(maxlen=10)
        self._shown = ""  # of the open segment
        self._end = 0.0  # s, of the last segment

    # -- from the client

    def read(self, text: bytes) -> list[Act]:
        """The options; then only the end may come. Raises `ProtocolError`."""
        if self._options is not None:
            if text.strip() == _END:
                return [Stop()]
            raise ProtocolError(
                "bad_message",
                "a text message after the first one",
                "Send audio in binary messages, and END_OF_AUDIO at its end.",
                1007,
            )
        options = self._options = _options(text)
        self.asked = self.asked.of(options.model)
        translating = self.asked.translating() if options.task == "translate" else None
        self.asked = translating or self.asked
        known = self.asked.languages
        language = (options.language or "").lower().partition("-")[0]
        if language and known and language not in known:
            raise ProtocolError(
                "unsupported_language",
                f"the model does not understand {language[:20]!r}",
                f"Leave the language out, or choose one of {', '.join(known)}.",
            )
        if options.send_last_n_segments is not None:
            most = min(max(options.send_last_n_segments, 1), _SEGMENTS)
            self._completed = deque(maxlen=most)
        encoding = _ENCODINGS[options.audio_format or "float32"]
        words = bool(options.word_timestamps)
        return [
            Start(
                encoding=encoding,
                words=words,
                model=self.asked.chosen,
                language=self.asked.spoken(language),
                task="translate" if translating else "transcribe",
            )
        ]

    def hear(self, data: bytes) -> list[Act]:
        """Audio, or its end; raises `ProtocolError` before the options."""
        if self._options is None:
            raise ProtocolError("start_first", "audio came before the options", self.begin)
        if data == _END:
            return [Stop()]
        if self._options.audio_format == "uint8":
            samples = np.frombuffer(data, np.uint8).astype("<i2")
            data = ((samples - 128) << 8).tobytes()
        return [data]

    # -- to the client

    def write(self, said: Said) -> list[Wire]:
        """What an event means in this protocol, each with the client's name."""
        uid = self._options.uid if self._options else ""
        return [msgspec.json.encode({"uid": uid, **told}).decode() for told in self._told(said)]

    def _told(self, said: Said) -> list[dict[str, Any]]:
        assert not isinstance(said, Answer), "nothing is answered at once"
        if isinstance(said, Ready):
            return self._welcome()
        if isinstance(said, Partial):
            text = f"{said.stable}{said.unstable}".strip()
            return self._open(text, said.start, said.end)
        if isinstance(said, Final):
            return self._final(said)
        if isinstance(said, Closed):
            return [] if said.reason == "stop" else [{"message": "DISCONNECT"}]
        if isinstance(said, Error):
            if said.code in {"full", "not_ready"}:
                return [{"status": "WAIT", "message": 1.0}]  # minutes
            return [{"status": "ERROR", "message": f"{said.message}. {said.fix}"}]
        return []

    def _welcome(self) -> list[dict[str, Any]]:
        assert self._options is not None
        # its clients keep the segments of this backend only
        told: list[dict[str, Any]] = [{"message": "SERVER_READY", "backend": "faster_whisper"}]
        if not self._options.language and len(self.asked.languages) == 1:
            told.append({"language": self.asked.languages[0], "language_prob": 1.0})
        # `enable_translation` wants other languages than English, beside the text as spoken.
        cannot = self._options.task == "translate" and self.asked.translating() is None
        if self._options.enable_translation or cannot:
            told.append({"status": "WARNING", "message": "This server does not translate."})
        return told

    def _open(self, text: str, start: float, end: float) -> list[dict[str, Any]]:
        """The open segment, where it reads differently now."""
        if text == self._shown:
            return []
        self._shown = text
        return [{"segments": [*self._completed, self._segment(text, start, end, completed=False)]}]

    def _final(self, final: Final) -> list[dict[str, Any]]:
        text = final.text.strip()
        # A client takes the last text that was not completed for the end of the transcript,
        # unless the last completed one is the same.
        told = self._open(text, final.start, final.end)
        self._shown = ""
        if not text:
            return told
        segment = self._segment(text, final.start, final.end, completed=True)
        if final.words is not None:
            segment["words"] = [_word(word) for word in final.words]
        self._completed.append(segment)
        self._end = float(segment["end"])
        return [*told, {"segments": [*self._completed]}]

    def _segment(self, text: str, start: float, end: float, *, completed: bool) -> dict[str, Any]:
        """A segment that does not overlap the one before: a client drops those that do."""
        start = max(start, self._end)
        return {
            "start": f"{start:.3f}",
            "end": f"{max(start, end):.3f}",
            "text": f" {text}",  # as Whisper writes; a client loses what is said twice without it
            "completed": completed,
        }


def _options(text: bytes) -> Options:
    try:
        options: Options = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(
            "bad_message", f"options not understood: {error}", WhisperLive.begin, 1007
        ) from None
    if len(options.uid) > _UID:
        raise ProtocolError(
            "bad_message", f"a uid of {len(options.uid)} characters", f"Use {_UID} at most.", 1007
        )
    return options


def _word(word: Word) -> dict[str, Any]:
    return {
        "word": f" {word.text}",
        "start": f"{word.start:.3f}",
        "end": f"{word.end:.3f}",
        "probability": round(math.exp(word.logprob), 4),
    }

"""Deepgram's live interface: `GET /v1/listen`, a WebSocket of audio in and JSON out."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import msgspec
from msgspec.structs import replace

from edge_runtime.dialects.base import Act, Answer, Asked, Dialect, Said, Way, Wire
from edge_runtime.dialects.deepgram import query, requests
from edge_runtime.dialects.deepgram.alternative import guessed, spoken
from edge_runtime.dialects.deepgram.container import WavStream
from edge_runtime.dialects.deepgram.origin import Origin
from edge_runtime.dialects.deepgram.pause import Pause
from edge_runtime.dialects.deepgram.query import Format
from edge_runtime.dialects.deepgram.requests import CloseStream, Configure, Finalize, KeepAlive
from edge_runtime.dialects.deepgram.wrong import Wrong, complaint, told
from edge_runtime.errors import ProtocolError
from edge_runtime.events import (
    Closed,
    Error,
    Final,
    Flush,
    Flushed,
    Partial,
    SpeechEnd,
    SpeechStart,
    Stop,
)

WAYS: tuple[Way, ...] = ("token", "bearer", "pair")

_CHANNELS = [0, 1]
"""The first of one."""

_SILENCE = "silence"
_BYTES = {"pcm_s16le": 2, "pcm_f32le": 4, "mulaw": 1, "alaw": 1}


class Listen(Dialect):
    """One connection. A turn is an utterance: its `is_final` results up to `speech_final`."""

    name = "deepgram"
    begin = "Send audio as binary messages."
    ways = WAYS
    protocols = ("token",)
    silence = 10.0

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked.of(asked.query.get("model")))
        self._settings = query.live(self.asked)
        self._origin = Origin(self.asked.model)
        self._wav = None if self._settings.format else WavStream()
        self._open = False
        self._sha256 = hashlib.sha256()
        self._second = 1  # of audio, in bytes
        self._sent = 0  # bytes of audio
        self._pause = Pause(self._settings.utterance_end)
        self._last_word: float | None = None  # of this turn, its end in seconds
        self._told = 0.0  # up to where results are final, in seconds
        self._finalized = False  # the newest flush has its result

    @staticmethod
    def complaint(error: ProtocolError) -> dict[str, Any]:
        """Deepgram's form of an error."""
        return complaint(error)

    # -- from the client

    def hello(self) -> list[Act]:
        """The session opens at once, unless its format is still to be told."""
        return [] if self._settings.format is None else self._opened(self._settings.format)

    def read(self, text: bytes) -> list[Act]:
        """What a message asks for. One that is wrong is answered, and the session goes on."""
        try:
            request = requests.read(text)
        except Wrong as error:
            return [Answer(told(error.code, str(error), text[:200].decode(errors="replace")))]
        if isinstance(request, KeepAlive):
            return []
        if isinstance(request, Finalize):
            return [Flush()] if self._open else [Answer(self._nothing())]
        if isinstance(request, Configure):
            return [Answer(self._configured(request))]
        assert isinstance(request, CloseStream)
        return self._close()

    def hear(self, data: bytes) -> list[Act]:
        """Audio; none of it closes the stream, as clients of old do."""
        if not data:
            return self._close()
        self._sha256.update(data)
        acts: list[Act] = []
        if self._wav is not None:
            data = self._wav.push(data)
            if self._wav.format is not None and not self._open:
                acts = self._opened(self._wav.format)
        self._sent += len(data)
        if data:
            acts.append(data)
        if self._pause.due(self._sent / self._second):
            acts.append(Answer(_SILENCE))
        return acts

    def silent(self) -> ProtocolError:
        """What Deepgram says to a client that neither speaks nor lives."""
        return ProtocolError(
            "NET-0001",
            f"neither audio nor a text message came for {self.silence:g} s",
            'Send {"type": "KeepAlive"} every 3 to 5 s while there is no audio.',
            1011,
        )

    def _opened(self, heard: Format) -> list[Act]:
        self._open = True
        self._second = _BYTES[heard.encoding] * heard.rate * heard.channels
        language = self.asked.spoken(self.asked.query.get("language"))
        start = self._settings.start(heard)
        return [replace(start, model=self.asked.chosen, language=language)]

    def _close(self) -> list[Act]:
        opened = [] if self._open else self._opened(Format("pcm_s16le", 16000, 1))
        return [*opened, Stop()]

    def _configured(self, request: Configure) -> dict[str, Any]:
        said = {"type": "ConfigureSuccess", "request_id": self._origin.request_id}
        if request.keyterms is None:
            return said
        return said | {
            "type": "ConfigureFailure",
            "code": "CONFIGURE_KEYTERMS_NOT_SUPPORTED",
            "description": "The model takes no key terms.",
        }

    # -- to the client

    def write(self, said: Said) -> list[Wire]:
        """What an event means, in messages of this protocol."""
        return [msgspec.json.encode(message).decode() for message in self._messages(said)]

    def _messages(self, said: Said) -> list[dict[str, Any]]:
        if isinstance(said, Answer):
            return self._silence(math.inf) if said.what == _SILENCE else [said.what]
        if isinstance(said, SpeechStart):
            return self._started(said.at)
        if isinstance(said, Partial):
            return [self._results(guessed(said), said.start, said.end)]
        if isinstance(said, Final):
            return [self._final(said)]
        if isinstance(said, SpeechEnd):
            self._ended(said.at)
        elif isinstance(said, Flushed):
            finalized, self._finalized = self._finalized, False
            return [] if finalized else [self._nothing()]
        elif isinstance(said, Closed):
            metadata = self._origin.metadata(self._sha256.hexdigest(), said.audio_seconds)
            return [*self._silence(said.audio_seconds), {"type": "Metadata", **metadata}]
        elif isinstance(said, Error):
            return [told(said.code, f"{said.message}. {said.fix}")]
        return []

    def _started(self, at: float) -> list[dict[str, Any]]:
        before = self._silence(at)
        self._pause.broken()
        self._last_word = None
        if not self._settings.vad_events:
            return before
        return [*before, {"type": "SpeechStarted", "channel": _CHANNELS, "timestamp": at}]

    def _final(self, final: Final) -> dict[str, Any]:
        if final.words:
            self._last_word = final.words[-1].end
        self._told = final.end
        self._finalized = final.reason == "flush"
        return self._results(
            spoken([final]),
            final.start,
            final.end,
            is_final=True,
            speech_final=self._settings.ends and final.reason != "cap",
            from_finalize=self._finalized,
        )

    def _ended(self, at: float) -> None:
        if self._last_word is not None:
            known = at + self._settings.endpoint_ms / 1000
            self._pause.began(self._last_word, known, self._sent / self._second)

    def _silence(self, at: float) -> list[dict[str, Any]]:
        end = self._pause.passed(at)
        if end is None:
            return []
        return [{"type": "UtteranceEnd", "channel": _CHANNELS, "last_word_end": end}]

    def _nothing(self) -> dict[str, Any]:
        """The answer to a `Finalize` that found nothing to write down."""
        return self._results(spoken([]), self._told, self._told, is_final=True, from_finalize=True)

    def _results(
        self, alternative: dict[str, Any], start: float, end: float, **said: bool
    ) -> dict[str, Any]:
        return {
            "type": "Results",
            "channel_index": _CHANNELS,
            "start": start,
            "duration": round(end - start, 3),
            "is_final": False,
            "speech_final": False,
            "from_finalize": False,
            **said,
            "channel": {"alternatives": [alternative]},
            "metadata": self._origin.described,
        }

"""Wyoming, the protocol of Home Assistant's voice: speech to text over a plain connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from edge_runtime import __version__
from edge_runtime.dialects.base import Act, Answer, Asked, Framed, Said, Wire
from edge_runtime.dialects.growth import Growth
from edge_runtime.dialects.wyoming import event as events
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Closed, Error, Final, Partial, Start, Stop

_ATTRIBUTION = {"name": "edge-runtime", "url": ""}
_ENDINGS = {
    "idle": "nothing came for too long",
    "shutdown": "the server shuts down",
}


class _Format(msgspec.Struct, frozen=True):
    rate: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    width: Annotated[int, msgspec.Meta(ge=1, le=8)]
    channels: Annotated[int, msgspec.Meta(ge=1, le=64)]

    def __str__(self) -> str:
        return f"{8 * self.width} bit at {self.rate} Hz with {self.channels} channels"


class _Transcribe(msgspec.Struct, frozen=True):
    name: str | None = None
    language: str | None = None


class _Ping(msgspec.Struct, frozen=True):
    text: str | None = None


class Wyoming(Framed):
    """One connection. An utterance is a session: from `audio-start` to `audio-stop`.

    However many segments it spans, their texts joined are its transcript, which is told in
    pieces as it becomes stable and once more as a whole. An utterance that was broken off has
    none: half a command must not look like one.
    """

    name = "wyoming"
    begin = 'Send "transcribe", "audio-start", "audio-chunk" with audio, then "audio-stop".'
    patient = False
    again = True
    service = "_wyoming._tcp.local."

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._served = asked
        self._language = _only(asked.languages)
        self._format: _Format | None = None  # of the utterance that is being sent
        self._growth = Growth()
        self._begun = False  # its transcript

    @staticmethod
    def following(line: bytes) -> int:
        """Bytes of JSON and of audio."""
        return events.following(line)

    # -- from the client

    def read(self, text: bytes) -> list[Act]:
        """What an event asks for; one that is none of ours asks for nothing."""
        event = events.read(text)
        if event.kind == "audio-chunk":
            return [*self._started(event), event.payload]
        if event.kind == "audio-start":
            return self._started(event)
        if event.kind == "audio-stop":
            return self._stopped()
        if event.kind == "transcribe":
            self._wish(event.values(_Transcribe))
        elif event.kind == "describe":
            return [Answer([events.encode("info", asr=[self._program()])])]
        elif event.kind == "ping":
            return [Answer([events.encode("pong", text=event.values(_Ping).text)])]
        return []

    def hear(self, data: bytes) -> list[Act]:
        """There are no messages but events."""
        raise NotImplementedError

    def _started(self, event: events.Event) -> list[Act]:
        wanted = event.values(_Format)
        if self._format is None:
            if wanted.width != 2:
                raise ProtocolError(
                    "unsupported_audio",
                    f"samples of {wanted.width} bytes are not supported",
                    "Send 16-bit samples: width 2.",
                    1003,
                )
            self._format = wanted
            return [
                Start(
                    sample_rate=wanted.rate,
                    channels=wanted.channels,
                    model=self.asked.chosen,
                    language=self.asked.spoken(self._language),
                )
            ]
        if wanted != self._format:
            raise ProtocolError(
                "format_changed",
                f"the utterance began with {self._format}, and went on with {wanted}",
                "Send audio-stop before audio of another format.",
                1003,
            )
        return []

    def _stopped(self) -> list[Act]:
        if self._format is None:
            return [Answer(self._transcript())]  # nothing was said: clients wait for that
        self._format = None
        return [Stop()]

    def _wish(self, wish: _Transcribe) -> None:
        self.asked = self._served.of(wish.name)
        known, language = self.asked.languages, wish.language
        self._language = _only(known)
        if not language or language.lower() == "auto":
            return
        wanted = language.lower().replace("_", "-").partition("-")[0]
        if known and wanted not in known:
            raise ProtocolError(
                "unsupported_language",
                f"the model does not understand {language[:20]!r}",
                f"Leave it out, or choose one of {', '.join(known)}.",
            )
        self._language = wanted

    def _program(self) -> dict[str, Any]:
        """What we are, in the protocol's words; Home Assistant shows the names."""
        models = [
            {
                "name": name,
                "attribution": _ATTRIBUTION,
                "installed": True,
                "description": name,
                "version": None,
                "languages": list(languages),
            }
            for name, languages in self._served.models.items()
        ]
        return {
            "name": "edge-runtime",
            "attribution": _ATTRIBUTION,
            "installed": True,
            "description": "Live speech to text on the device",
            "version": __version__,
            "models": models,
            "supports_transcript_streaming": True,
            "requires_external_vad": True,
        }

    # -- to the client

    def write(self, said: Said) -> list[Wire]:
        """What an event means, in events of this protocol."""
        if isinstance(said, Answer):
            return list(said.what)
        if isinstance(said, Partial):
            return self._grown(self._growth.stable(said.stable))
        if isinstance(said, Final):
            return self._grown(self._growth.final(said.text))
        if isinstance(said, Closed):
            if said.reason == "stop":
                return self._transcript()
            why = _ENDINGS.get(said.reason, "the session is over")
            return [
                events.encode("error", text=f"{why}, and the utterance was not", code=said.reason)
            ]
        if isinstance(said, Error):
            return [events.encode("error", text=f"{said.message}. {said.fix}", code=said.code)]
        return []

    def _grown(self, piece: str) -> list[Wire]:
        return [*self._begin(), events.encode("transcript-chunk", text=piece)] if piece else []

    def _begin(self) -> list[Wire]:
        if self._begun:
            return []
        self._begun = True
        return [events.encode("transcript-start", **self._spoken)]

    def _transcript(self) -> list[Wire]:
        """The whole of it, also where that is nothing; the next utterance has another."""
        whole = events.encode("transcript", text=self._growth.text, **self._spoken)
        told = [*self._begin(), whole, events.encode("transcript-stop")]
        self._growth, self._begun = Growth(), False
        return told

    @property
    def _spoken(self) -> dict[str, str]:
        return {} if self._language is None else {"language": self._language}


def _only(languages: Sequence[str]) -> str | None:
    return languages[0] if len(languages) == 1 else None

"""OpenAI's Realtime interface for transcription: `GET /v1/realtime`, a WebSocket of JSON."""

from __future__ import annotations

import itertools
import secrets
from collections import deque
from typing import Any

import msgspec
from msgspec.structs import replace

from edge_runtime.dialects.base import Act, Answer, Asked, Dialect, Said, Wire
from edge_runtime.dialects.openai import requests
from edge_runtime.dialects.openai.item import Event, Item
from edge_runtime.dialects.openai.requests import Append, BetaUpdate, Clear, Commit, SessionUpdate
from edge_runtime.dialects.openai.settings import Settings, Wanted
from edge_runtime.dialects.openai.wrong import Wrong, complaint
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Error, Final, Flush, Flushed, Partial, SpeechEnd, SpeechStart, Start

_BETA_PROTOCOL = "openai-beta.realtime-v1"
_CLEARED = complaint(Wrong(None, "the audio was cleared", "", "cleared"))


class Realtime(Dialect):
    """One connection. A turn is an item; it may span several segments.

    With turn detection, speech that ends commits an item. Without it a commit does, and what is
    heard until then is told as it becomes stable.
    """

    name = "openai-realtime"
    begin = 'Send "input_audio_buffer.append" with audio.'
    ways = ("bearer", "prefix")
    protocols = ("realtime",)

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked.of(asked.query.get("model")))
        header = asked.headers.get("OpenAI-Beta", "")
        self._beta = "realtime=v1" in header or _BETA_PROTOCOL in asked.protocols
        self._settings = Settings()
        self._open = False
        self._buffered = False  # audio came since the last commit or clear
        self._asked: deque[Commit | Clear] = deque()  # each is answered by a `Flushed`
        self._item: Item | None = None
        self._last: str | None = None  # the item committed before
        self._by_flush = False  # the last final came because of a flush
        self._committed = False  # and so did an item
        self._session = secrets.token_hex(6)
        self._events = itertools.count(1)
        self._items = itertools.count(1)

    @staticmethod
    def complaint(error: ProtocolError) -> dict[str, Any]:
        """OpenAI's form of an error."""
        return {"error": complaint(error)}

    # -- from the client

    def hello(self) -> list[Act]:
        """The session, before anything is asked."""
        return [Answer(self._described("created"))]

    def read(self, text: bytes) -> list[Act]:
        """What an event asks for. One that is wrong is answered, and the session goes on."""
        try:
            return self._read(requests.read(text))
        except Wrong as error:
            said = {**complaint(error), "event_id": requests.event_id(text)}
            return [Answer({"type": "error", "error": said})]

    def hear(self, data: bytes) -> list[Act]:
        """Not in this protocol."""
        wrong = Wrong(None, "a binary message", "Send audio in input_audio_buffer.append.")
        return [Answer({"type": "error", "error": complaint(wrong)})]

    def _read(self, request: requests.AnyRequest) -> list[Act]:
        if isinstance(request, Append):
            return self._append(request.audio)
        if isinstance(request, (SessionUpdate, BetaUpdate)):
            self._beta = self._beta or isinstance(request, BetaUpdate)
            self._update(request.session)
            return [Answer(self._described("updated"))]
        if isinstance(request, Commit) and not self._buffered:
            raise Wrong(
                None,
                "there is no audio to commit",
                "Append some first.",
                "input_audio_buffer_commit_empty",
            )
        self._buffered = False
        if not self._open:
            return [Answer({"type": "input_audio_buffer.cleared"})]
        self._asked.append(request)
        return [Flush()]

    def _append(self, audio: bytes) -> list[Act]:
        if not audio:
            return []
        self._buffered = True
        if self._open:
            return [audio]
        self._open = True
        return [self._start(self._settings, self.asked), audio]

    @staticmethod
    def _start(settings: Settings, asked: Asked) -> Start:
        language = asked.spoken(settings.transcription.language)
        return replace(settings.start, model=asked.chosen, language=language)

    def _update(self, wanted: Wanted) -> None:
        settings, asked = self._settings.updated(wanted, self.asked)
        before = (self._start(self._settings, self.asked), self._manual)
        if self._open and before != (self._start(settings, asked), settings.detection is None):
            raise Wrong(
                "session.audio.input",
                "format, turn detection and model are settled by the first audio",
                "Change them before it, or connect again.",
            )
        self._settings, self.asked = settings, asked

    # -- to the client

    def write(self, said: Said) -> list[Wire]:
        """What an event means, in events of this protocol."""
        return [self._encoded(event) for event in self._told(said)]

    def _told(self, said: Said) -> list[Event]:
        if isinstance(said, Answer):
            return [said.what]
        if isinstance(said, SpeechStart):
            item = self._current()
            return [] if self._manual else [item.started(said.at)]
        if isinstance(said, Partial):
            return self._current().stable(said.stable)
        if isinstance(said, Final):
            self._by_flush = said.reason == "flush"
            return [] if self._clears else self._current().final(said.text, said.end - said.start)
        if isinstance(said, SpeechEnd):
            return self._stopped(said.at)
        if isinstance(said, Flushed):
            return self._flushed()
        if isinstance(said, Error):
            error = complaint(ProtocolError(said.code, said.message, said.fix, 1011))
            return [*self._failed(error), {"type": "error", "error": error}]
        return []

    @property
    def _manual(self) -> bool:
        return self._settings.detection is None

    @property
    def _clears(self) -> bool:
        """The segment that is over now is what the client wants forgotten."""
        return self._by_flush and bool(self._asked) and isinstance(self._asked[0], Clear)

    def _current(self) -> Item:
        if self._item is None:
            self._item = Item(f"item_{self._session}_{next(self._items)}")
        return self._item

    def _stopped(self, at: float) -> list[Event]:
        if self._manual:
            return []
        if self._clears:
            return self._failed(_CLEARED)
        self._committed = self._by_flush
        return [self._current().stopped(at), *self._commit()]

    def _flushed(self) -> list[Event]:
        request = self._asked.popleft()
        committed, self._committed = self._committed, False
        if isinstance(request, Clear):
            return [*self._failed(_CLEARED), {"type": "input_audio_buffer.cleared"}]
        return [] if committed else self._commit()

    def _commit(self) -> list[Event]:
        item, before = self._current(), self._last
        self._item, self._last = None, item.id
        return item.committed(before, beta=self._beta)

    def _failed(self, error: dict[str, Any]) -> list[Event]:
        item, self._item = self._item, None
        return [] if item is None else item.failed(error)

    def _described(self, what: str) -> Event:
        kind = "transcription_session" if self._beta else "session"
        session = self._settings.described(self.asked.model, beta=self._beta)
        return {"type": f"{kind}.{what}", "session": session}

    def _encoded(self, event: Event) -> str:
        numbered = {"event_id": f"event_{self._session}_{next(self._events)}", **event}
        return msgspec.json.encode(numbered).decode()

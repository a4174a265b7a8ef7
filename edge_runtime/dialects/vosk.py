"""Vosk's server: a WebSocket on which each message of audio gets one answer, at once."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from edge_runtime.dialects.base import Act, Answer, Asked, Dialect, Said, Wire
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Closed, Error, Final, Flush, Flushed, Partial, Start, Stop, Word


class Wanted(msgspec.Struct, frozen=True):
    """What a client wants of its session; what is not set stays as it is."""

    sample_rate: float | UnsetType = UNSET
    words: bool | UnsetType = UNSET
    max_alternatives: int | UnsetType = UNSET


class Request(msgspec.Struct, frozen=True):
    """A text message, of which one field is set."""

    config: Wanted | UnsetType = UNSET
    eof: bool | UnsetType = UNSET
    reset: bool | UnsetType = UNSET


_Due = Literal["frame", "reset"]
_decoder = msgspec.json.Decoder(Request, strict=False)  # some clients write "16000", and 1


class Vosk(Dialect):
    """One connection. A segment is an utterance; its text waits for the next answer.

    No answer waits for the model: each has what is known when its audio comes.
    """

    name = "vosk"
    begin = 'Send audio, or {"config":{"sample_rate":16000}} and then audio.'

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._rate = 8000.0
        self._words = True
        self._alternatives = False
        self._open = False
        self._due: deque[_Due] = deque()  # what is to be answered, in order
        self._flushed = 0  # resets that may be answered
        self._partial = ""
        self._finals: list[Final] = []  # not told yet

    # -- from the client

    def read(self, text: bytes) -> list[Act]:
        """What a text message asks for; raises `ProtocolError`."""
        request = _request(text)
        if request.config is not UNSET:
            self._configure(request.config)
            return []
        if request.reset is not UNSET:
            return [*self._begun(), Answer("reset"), Flush()]
        return [*self._begun(), Stop()]

    def hear(self, data: bytes) -> list[Act]:
        """Audio, and the answer to it: first, so that it does not wait for room in the session."""
        return [*self._begun(), Answer("frame"), data]

    def _configure(self, wanted: Wanted) -> None:
        if self._open:
            return  # settled, as Vosk has it
        if wanted.sample_rate is not UNSET:
            if not wanted.sample_rate.is_integer():
                raise ProtocolError(
                    "unsupported_audio",
                    f"a sample rate of {wanted.sample_rate:g} Hz is not supported",
                    "Send a whole number of Hz, such as 16000.",
                    1003,
                )
            self._rate = wanted.sample_rate
        if wanted.words is not UNSET:
            self._words = wanted.words
        if wanted.max_alternatives is not UNSET:
            self._alternatives = wanted.max_alternatives > 0

    def _begun(self) -> list[Act]:
        """The start of the session, once."""
        if self._open:
            return []
        self._open = True
        return [Start(sample_rate=int(self._rate), words=self._words)]

    # -- to the client

    def write(self, said: Said) -> list[Wire]:
        """The answers that are due, and after the last event the rest of the text."""
        if isinstance(said, Answer):
            self._due.append(said.what)
        elif isinstance(said, Flushed):
            self._flushed += 1
        elif isinstance(said, Partial):
            self._partial = f"{said.stable}{said.unstable}".strip()
        elif isinstance(said, Final):
            self._partial = ""
            if said.text.strip():
                self._finals.append(said)
        told = self._answers()
        if isinstance(said, Closed) and (said.reason == "stop" or self._finals):
            told.append(self._result())
        elif isinstance(said, Error):
            told.append(self._known() | {"error": f"{said.message}. {said.fix}"})
        return [msgspec.json.encode(each).decode() for each in told]

    def _answers(self) -> list[dict[str, Any]]:
        answers = []
        while self._due and (self._due[0] == "frame" or self._flushed):
            if self._due.popleft() == "frame":
                answers.append(self._known())
            else:
                self._flushed -= 1
                answers.append(self._result())
        return answers

    def _known(self) -> dict[str, Any]:
        """The text of utterances that have ended, else what there is of the next."""
        return self._result() if self._finals else {"partial": self._partial}

    def _result(self) -> dict[str, Any]:
        """The text that was not told yet, of none or several utterances."""
        finals, self._finals = self._finals, []
        said: dict[str, Any] = {}
        words = [_word(word) for final in finals for word in final.words or ()]
        if words:
            said["result"] = words
        said["text"] = " ".join(final.text.strip() for final in finals)
        if not self._alternatives:
            return said
        mean = math.fsum(final.logprob for final in finals) / max(1, len(finals))
        return {"alternatives": [{"confidence": math.exp(mean), **said}]}


def _request(text: bytes) -> Request:
    try:
        request: Request = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        wrong = f"message not understood: {error}"
    else:
        if request != Request():
            return request
        wrong = "a message that asks for nothing"
    raise ProtocolError(
        "bad_message",
        wrong,
        'Send {"config":{"sample_rate":16000}}, {"eof" : 1} or {"reset" : 1}; audio is binary.',
        1007,
    )


def _word(word: Word) -> dict[str, Any]:
    return {
        "conf": math.exp(word.logprob),
        "end": word.end,
        "start": word.start,
        "word": word.text.strip(),
    }

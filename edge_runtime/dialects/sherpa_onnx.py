"""sherpa-onnx's streaming server: float samples in, the open segment's text out, then `Done!`."""

from __future__ import annotations

from typing import Any

import msgspec

from edge_runtime.dialects.base import Act, Answer, Asked, Dialect, Said, Wire
from edge_runtime.events import Closed, Error, Final, Partial, Start, Stop


class SherpaOnnx(Dialect):
    """One connection. Each result has all of the text of one segment so far."""

    name = "sherpa-onnx"
    begin = "Send audio: float32 samples at 16 kHz, little-endian, in binary messages."

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._open = False
        self._segment = 0  # the number of the open one
        self._shown = ""  # what was told of it
        self._ended = False

    # -- from the client

    def read(self, text: bytes) -> list[Act]:
        """`Done` ends; other texts mean nothing in this protocol."""
        return [*self._begun(), Stop()] if text.strip() == b"Done" else []

    def hear(self, data: bytes) -> list[Act]:
        """Audio."""
        return [*self._begun(), data]

    def _begun(self) -> list[Act]:
        """The start of the session, once."""
        if self._open:
            return []
        self._open = True
        return [Start(encoding="pcm_f32le", words=True)]

    # -- to the client

    def write(self, said: Said) -> list[Wire]:
        """The open segment's text when it changes, the last of it marked `is_final`."""
        assert not isinstance(said, Answer), "nothing is answered at once"
        if isinstance(said, Partial):
            text = f"{said.stable}{said.unstable}".strip()
            if text == self._shown:
                return []
            self._shown = text
            return [self._result(text, start_time=said.start)]
        if isinstance(said, Final):
            return self._final(said)
        if isinstance(said, Closed):
            end = [] if self._ended else [self._result("", is_final=True, is_eof=True)]
            return [*end, "Done!"]
        if isinstance(said, Error):
            return [self._result("", is_final=True, error=f"{said.message}. {said.fix}")]
        return []

    def _final(self, final: Final) -> list[Wire]:
        text, shown, self._shown = final.text.strip(), self._shown, ""
        if not text and not shown:
            return []
        words = final.words or []
        self._ended = final.reason == "stop"
        result = self._result(
            text,
            tokens=[f" {word.text}" for word in words],
            timestamps=[round(word.start - final.start, 3) for word in words],
            start_time=final.start,
            is_final=True,
            is_eof=self._ended,
        )
        self._segment += 1
        return [result]

    def _result(self, text: str, **fields: Any) -> str:
        """A result in which everything that is not given is empty."""
        usual: dict[str, Any] = {
            "text": text,
            "tokens": [],
            "timestamps": [],
            "ys_probs": [],
            "lm_probs": [],
            "context_scores": [],
            "segment": self._segment,
            "words": [],
            "start_time": 0.0,
            "is_final": False,
            "is_eof": False,
        }
        return msgspec.json.encode({**usual, **fields}).decode()

"""pocketsphinx as its own example of live recognition has it: endpointer, decoder, hypotheses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pocketsphinx

from peering.player import RATE, size


class Sphinx:
    """Its defaults, and its English model."""

    def __init__(self) -> None:
        self._decoder = pocketsphinx.Decoder(samprate=RATE)
        self.bytes = size(Path(pocketsphinx.get_model_path("en-us")))
        self.open = False

    def begin(self, *, partials: bool) -> None:
        """Another clip."""
        self._endpointer = pocketsphinx.Endpointer(sample_rate=RATE)
        self._partials = partials
        self._rest = b""
        self._shown = ""
        self.open = False

    def hear(self, samples: np.ndarray) -> Iterator[tuple[str, str]]:
        """See `Engine`."""
        self._rest += (np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()
        frame = self._endpointer.frame_bytes
        while len(self._rest) >= frame:
            piece, self._rest = self._rest[:frame], self._rest[frame:]
            was, speech = self._endpointer.in_speech, self._endpointer.process(piece)
            if speech is None:
                continue
            if not was:
                self._decoder.start_utt()
                self.open, self._shown = True, ""
            self._decoder.process_raw(speech)
            if not self._endpointer.in_speech:
                yield self._final()
            elif self._partials and (text := self._text()) != self._shown:
                self._shown = text
                yield "partial", text

    def end(self) -> Iterator[tuple[str, str]]:
        """See `Engine`."""
        if self.open:
            if speech := self._endpointer.end_stream(self._rest):
                self._decoder.process_raw(speech)
            yield self._final()

    def _final(self) -> tuple[str, str]:
        self._decoder.end_utt()
        self.open = False
        return "final", self._text()

    def _text(self) -> str:
        found = self._decoder.hyp()
        return "" if found is None else found.hypstr

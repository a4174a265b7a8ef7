"""When each word of a transcript is spoken, by forced alignment (pocketsphinx)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge_runtime.audio.ring import Samples

_FRAMES = 100  # a second
_VARIANT = re.compile(r"\(\d+\)$")


@dataclass(frozen=True)
class Spoken:
    """A word of the transcript and its span in seconds."""

    text: str
    start: float
    end: float


class Aligner:
    """pocketsphinx with its own US English model, 10 ms frames."""

    def __init__(self) -> None:
        from pocketsphinx import Decoder

        self._decoder: Any = Decoder(loglevel="FATAL")

    def words(self, pcm: Samples, transcript: str) -> list[Spoken] | None:
        """The words of (samples,) 16 kHz audio, or None where it cannot be done.

        That is when a word is not in the dictionary, or the path through the
        words does not reach the end. Times come from the second pass, which
        models silence before the end; where that fails they come from the
        first, without its last word when no silence follows it.
        """
        text = transcript.lower().split()
        if not text or any(self._decoder.lookup_word(word) is None for word in text):
            return None
        raw = (np.clip(pcm, -1, 32767 / 32768) * 32768).astype(np.int16).tobytes()
        self._decoder.set_align_text(" ".join(text))
        if not self._decode(raw):
            return None
        first = [(s.word, s.start_frame, s.end_frame + 1) for s in self._decoder.seg()]
        self._decoder.set_alignment()
        if self._decode(raw):
            second = [
                (w.name, w.start, w.start + w.duration) for w in self._decoder.get_alignment()
            ]
            return _spoken(second)
        if len(first) > 1 and first[-1][0] == "</s>" and not first[-2][0].startswith("<"):
            del first[-2]
        return _spoken(first)

    def _decode(self, raw: bytes) -> bool:
        self._decoder.start_utt()
        try:
            self._decoder.process_raw(raw, full_utt=True)
            self._decoder.end_utt()
        except RuntimeError:  # its only way to say that the last state was not reached
            return False
        return True


def _spoken(segments: list[tuple[str, int, int]]) -> list[Spoken]:
    return [
        Spoken(_VARIANT.sub("", word), start / _FRAMES, end / _FRAMES)
        for word, start, end in segments
        if not word.startswith(("<", "["))
    ]

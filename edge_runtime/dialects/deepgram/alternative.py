"""What was said, as Deepgram tells it: a transcript with its words, times and confidences."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

from edge_runtime.events import Final, Partial, Word

_MARKS = string.punctuation + "¿¡“”‘’«»…–—"


def spoken(finals: Sequence[Final]) -> dict[str, Any]:
    """Of finals: the texts joined by spaces; confidence is the mean over the words (0 to 1)."""
    words = [_word(word) for final in finals for word in final.words or ()]
    sure = [word["confidence"] for word in words]
    sure = sure or [_probability(final.logprob) for final in finals if final.text]
    return {
        "transcript": " ".join(text for final in finals if (text := final.text.strip())),
        "confidence": round(math.fsum(sure) / len(sure), 4) if sure else 0.0,
        "words": words,
    }


def guessed(partial: Partial) -> dict[str, Any]:
    """Of what is being said; confidence is how much of the text is stable. Words have no times."""
    text = partial.stable + partial.unstable
    return {
        "transcript": text.strip(),
        "confidence": round(len(partial.stable) / len(text), 4) if text else 0.0,
        "words": [],
    }


def _word(word: Word) -> dict[str, Any]:
    text = word.text.strip()
    return {
        "word": text.strip(_MARKS).lower() or text,
        "start": word.start,
        "end": word.end,
        "confidence": _probability(word.logprob),
        "punctuated_word": text,
    }


def _probability(logprob: float) -> float:
    return round(math.exp(min(logprob, 0.0)), 4)

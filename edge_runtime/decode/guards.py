"""What a text must look like to be believed."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

from edge_runtime.config import Guarding
from edge_runtime.decode import scripts
from edge_runtime.decode.tokens import Span

REPEATS = 4
"""A run of words said this often in a row is a loop."""


def without_loop(spans: Sequence[Span]) -> list[Span]:
    """The words up to the end of the first round of a loop; all of them where there is none."""
    keys = [span.key for span in spans]
    if len(set(keys)) > len(keys) - REPEATS + 1:
        return list(spans)  # too few are said twice
    for start in range(len(keys)):
        for length in range(1, (len(keys) - start) // REPEATS + 1):
            round_ = keys[start : start + length]
            if keys[start : start + length * REPEATS] == round_ * REPEATS:
                return list(spans[: start + length])
    return list(spans)


def verdict(
    text: str,
    spans: Sequence[Span],
    logprobs: Sequence[float],
    seconds: float,
    rule: Guarding,
    languages: Sequence[str] = ("en",),
    silence: float = -math.inf,
) -> str | None:
    """Why `text`, heard in `seconds` of audio, is not believed; `None` when it is.

    The reasons, in the order they are tried: `rate` (tokens a second), `loop`,
    `compression` (bytes over zlib's bytes, for texts of some length), `script`
    (letters that no language of the model is written in), `logprob` (mean over tokens),
    `silence` (the model thinks that likely, and is not sure of its words).
    """
    if not logprobs:
        return None
    if len(logprobs) > rule.tokens_per_second * max(seconds, 1.0):
        return "rate"
    if len(without_loop(spans)) < len(spans):
        return "loop"
    data = text.encode()
    if len(data) > 80 and len(data) / len(zlib.compress(data)) > rule.compression:
        return "compression"
    if scripts.foreign(text, languages):
        return "script"
    mean = sum(logprobs) / len(logprobs)
    if mean < rule.mean_logprob:
        return "logprob"
    if math.exp(silence) > rule.silence and mean < rule.silence_logprob:
        return "silence"
    return None

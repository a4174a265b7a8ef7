"""Greedy tokens and the probability of silence are those of faster-whisper.

Recordings of this repository are always compared; those beside it, forty with tiny.en and all clean
ones with base, with `EDGE_RUNTIME_LONG=1 tools/test tests/model/whisper`, which takes ten minutes.
"""

from __future__ import annotations

import math

import pytest

from edge_runtime.audio import RATE
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Size

OWN = ("1089-134691-0001", "1867-154075-0005", "7367-86737-0006")


def test_tokens_of_own_recordings(whisper, run, golden, spoken, decode, told, excused) -> None:
    end = whisper.chain.shape.end
    for heard in golden("whisper-tiny-en")[: len(OWN)]:
        assert heard.id in OWN
        samples = spoken(heard.id)
        (found,) = decode(run, samples, limit=200)
        want = [*heard.tokens, end] if found.ended else heard.tokens
        nothing = [float("nan")] * len(want)
        excused(
            (want, nothing),
            lambda forced, samples=samples: told(
                decode(run, samples, limit=200, forced=forced)[0], end
            ),
            1e-3,
        )
        assert math.exp(found.silence) == pytest.approx(heard.no_speech, abs=1e-3)


@pytest.mark.parametrize("model", ["whisper-tiny-en", "whisper-base"])
def test_tokens_of_many_recordings(long, model, golden, request, shared, decode, told, excused):
    loaded = request.getfixturevalue("whisper" if model == "whisper-tiny-en" else "base")
    runner, end = Runner(loaded.chain, Size(1, 30 * RATE)), loaded.chain.shape.end
    for heard in golden(model)[len(OWN) :]:
        samples = shared(heard.id)
        (found,) = decode(runner, samples, limit=200)
        assert found.language in ("", "en")
        want = [*heard.tokens, end] if found.ended else heard.tokens
        nothing = [float("nan")] * len(want)
        excused(
            (want, nothing),
            lambda forced, samples=samples: told(
                decode(runner, samples, limit=200, forced=forced)[0], end
            ),
            1e-3,
        )

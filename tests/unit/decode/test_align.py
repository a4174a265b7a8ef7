"""Word times come from the best monotonic path through attention."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.decode.align import BIAS, spoken_times, token_frames, word_times


def staircase(bounds: list[int]) -> np.ndarray:
    """Attention of token i on frames [bounds[i], bounds[i + 1]) alone."""
    attention = np.full((len(bounds) - 1, bounds[-1]), 1e-4, np.float32)
    for token, (start, end) in enumerate(pairwise(bounds)):
        attention[token, start:end] = 1.0 / (end - start)
    return attention


@pytest.mark.parametrize("bounds", [[0, 4, 10, 11, 30], [0, 5], [0, 1, 2, 3]])
def test_a_staircase_is_found(bounds: list[int]) -> None:
    assert token_frames(staircase(bounds)).tolist() == bounds


def test_one_token_that_looks_elsewhere_does_not_break_the_order() -> None:
    """Where attention peaks is not when a word was said; the path is."""
    attention = staircase([0, 8, 16, 24, 32])
    attention[1] = 1e-4
    attention[1, 30] = 1.0  # the second token peeks at the end
    first = token_frames(attention)
    assert first[0] == 0
    assert 8 <= first[2] <= 16
    assert first[3:].tolist() == [24, 32]


@given(st.integers(1, 8), st.integers(0, 12), st.integers(0, 10**6))
def test_the_path_is_the_best_of_all(tokens: int, more: int, seed: int) -> None:
    attention = np.random.default_rng(seed).random((tokens, tokens + more), np.float32)
    first = token_frames(attention)
    assert first[0] == 0
    assert first[-1] == tokens + more
    assert (np.diff(first) >= 1).all()
    score = np.log(attention + 1e-6).astype(np.float64)

    def worth(bounds) -> float:
        return sum(score[t, bounds[t] : bounds[t + 1]].sum() for t in range(tokens))

    assert worth(first) == pytest.approx(best_of_all(score), abs=1e-4)


def best_of_all(score: np.ndarray) -> float:
    """The same maximum by recursion over where the last token begins."""
    tokens, frames = score.shape
    best = {(0, 0): 0.0}
    for token in range(tokens):
        for end in range(token + 1, frames + 1):
            best[token + 1, end] = max(
                best[token, begin] + score[token, begin:end].sum()
                for begin in range(token, end)
                if (token, begin) in best
            )
    return best[tokens, frames]


def test_times_of_words(say) -> None:
    spans, tokens = say("Hello, world. You")
    assert len(tokens) == 5
    attention = staircase([0, 10, 12, 20, 22, 40])
    hello, world, you = word_times(spans, attention, 0.024)
    assert hello == (0.0, pytest.approx(10 * 0.024 + BIAS))  # without its comma
    assert world == (pytest.approx(12 * 0.024 + BIAS), pytest.approx(20 * 0.024 + BIAS))
    assert you == (
        pytest.approx(22 * 0.024 + BIAS),
        pytest.approx(40 * 0.024),
    )  # never past the end


def test_more_tokens_than_frames_have_no_times(say) -> None:
    spans, tokens = say("Hello, world. You")
    assert word_times(spans, np.ones((len(tokens), 3), np.float32), 0.024) == [(0.0, 0.0)] * 3
    assert word_times([], np.ones((0, 3), np.float32), 0.024) == []


def test_times_of_words_that_were_said_as_they_were_heard(say) -> None:
    spans, _ = say("Hello, world. You")
    hello, world, you = spoken_times(spans, [3, 5, 10, 12, 20], 0.04)
    assert hello == (pytest.approx(0.12), pytest.approx(0.16))  # without its comma
    assert world == (pytest.approx(0.4), pytest.approx(0.44))
    assert you == (pytest.approx(0.8), pytest.approx(0.84))

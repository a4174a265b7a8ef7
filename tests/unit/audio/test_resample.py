"""A streamed resampling equals one of the whole, and leaves 16 kHz alone."""

import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.audio.resample import Resampler
from edge_runtime.errors import AudioError


def streamed(rate: int, samples: np.ndarray, sizes: list[int]) -> np.ndarray:
    resampler = Resampler(rate)
    pieces = []
    at = 0
    while at < len(samples):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(resampler.push(samples[at : at + size]))
        at += size
    return np.concatenate([*pieces, resampler.flush()])


@settings(max_examples=40)
@given(
    st.sampled_from([8000, 11025, 16000, 22050, 44100, 48000, 96000, 192000])
    | st.integers(8000, 192000),
    st.lists(st.integers(1, 9000), min_size=1, max_size=6),
    st.integers(0, 12000),
)
def test_pieces_of_any_size_equal_the_whole(rate: int, sizes: list[int], count: int) -> None:
    sizes = [max(size, 1 + count // 50) for size in sizes]
    samples = np.random.default_rng(count).uniform(-1, 1, count).astype(np.float32)
    whole = soxr.resample(samples, rate, 16000, quality="HQ")
    got = streamed(rate, samples, sizes)
    assert got.dtype == np.float32
    assert len(got) == len(whole)
    np.testing.assert_allclose(got, whole, atol=1e-6)


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_a_tone_keeps_its_place_and_its_level(rate: int) -> None:
    seconds = np.arange(rate) / rate
    tone = (0.5 * np.sin(2 * np.pi * 440 * seconds)).astype(np.float32)
    got = streamed(rate, tone, [rate // 50])
    assert len(got) == 16000
    wanted = 0.5 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    np.testing.assert_allclose(got[800:-800], wanted[800:-800], atol=2e-3)


def test_a_flush_gives_everything_and_a_new_stream_begins() -> None:
    samples = np.random.default_rng(0).uniform(-1, 1, 4800).astype(np.float32)
    resampler = Resampler(48000)
    rounds = [np.concatenate([resampler.push(samples), resampler.flush()]) for _ in range(2)]
    assert len(rounds[0]) == 1600
    np.testing.assert_array_equal(rounds[0], rounds[1])


def test_nothing_and_one_sample() -> None:
    for rate in (8000, 16000, 48000):
        resampler = Resampler(rate)
        assert not len(resampler.flush())
        one = np.concatenate([resampler.push(np.ones(1, np.float32)), resampler.flush()])
        assert len(one) == round(16000 / rate)


@pytest.mark.parametrize("rate", [0, -16000, 7999, 192001])
def test_other_rates_are_refused(rate: int) -> None:
    with pytest.raises(AudioError, match="8000 to 192000"):
        Resampler(rate)

"""Any audio becomes 16 kHz mono, good values only, and blocks come as soon as they can."""

from __future__ import annotations

import numpy as np
import pytest

from edge_runtime.audio.convert import Converter, converted, mended
from edge_runtime.errors import AudioError


def test_mending_leaves_the_callers_array() -> None:
    good = np.array([0.5, -1], np.float32)
    assert mended(good)[0] is good
    bad = np.array([np.nan, 2], np.float32)
    np.testing.assert_array_equal(mended(bad)[0], [0, 1])
    assert np.isnan(bad[0])
    assert bad[1] == 2


def test_values_are_mended_before_channels_are_averaged() -> None:
    converter = Converter(16000)
    block = np.array([[np.nan, 0.5], [3, -0.5], [0.25, 0.25]], np.float32)
    np.testing.assert_array_equal(converter.push(block), [0.25, 0.25, 0.25])
    assert (converter.repaired, converter.clipped) == (1, 1)
    converter.push(np.array([[np.inf, -2]], np.float32))
    assert converter.warnings == [
        "2 values were NaN or infinite and count as silence",
        "2 values were beyond full scale and were clipped",
    ]


def test_one_channel_may_have_a_column_of_its_own_or_none() -> None:
    column = np.linspace(-1, 1, 5, dtype=np.float32)
    np.testing.assert_array_equal(Converter(16000).push(column[:, None]), column)
    np.testing.assert_array_equal(Converter(16000).push(column), column)
    assert Converter(16000).warnings == []


@pytest.mark.parametrize("rate", [16000, 44100])
def test_blocks_are_all_there_is_and_none_is_empty(rate: int) -> None:
    tone = np.sin(np.arange(rate) * 2 * np.pi * 300 / rate).astype(np.float32)
    pieces = np.split(tone, range(100, rate, 100))
    converter = Converter(rate)
    blocks = list(converted(pieces, converter.push, converter.flush))
    assert all(len(block) for block in blocks)
    whole = Converter(rate)
    wanted = np.concatenate([whole.push(tone), whole.flush()])
    assert len(wanted) == 16000
    np.testing.assert_allclose(np.concatenate(blocks), wanted, atol=1e-6)


def test_a_block_comes_with_its_piece() -> None:
    asked = []

    def pieces():
        for number in range(3):
            asked.append(number)
            yield np.full(4, number / 4, np.float32)

    converter = Converter(16000)
    blocks = converted(pieces(), converter.push, converter.flush)
    assert next(blocks).tolist() == [0] * 4
    assert asked == [0]


def test_no_pieces_give_no_blocks() -> None:
    converter = Converter(48000)
    for pieces in ([], [np.zeros(0, np.float32)]):
        assert list(converted(pieces, converter.push, converter.flush)) == []


def test_a_rate_that_cannot_be_converted_is_refused() -> None:
    with pytest.raises(AudioError, match="4000 Hz"):
        Converter(4000)

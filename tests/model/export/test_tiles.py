"""However the decoder is cut, padded, batched or rounded, it says the same."""

import numpy as np
import pytest

from edge_runtime.audio import RATE
from edge_runtime.decode.lane import Lane
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Size

CLIPS = ["1867-154075-0005", "7367-86737-0006", "1089-134691-0001"]
FLOAT32, FLOAT16 = 1e-3, 0.1
"""How close the two best logits must be for a difference to be excused."""


@pytest.fixture(scope="module")
def clips(spoken) -> list[np.ndarray]:
    demo = spoken("demo")
    return [*(spoken(name) for name in CLIPS), demo[: int(9.3 * RATE)], demo[:20_000]]


@pytest.fixture(scope="module")
def alone(runner, decode, clips):
    """Each clip decoded by itself."""
    return [decode(runner, clip)[0] for clip in clips]


@pytest.mark.parametrize("tiles", [(6,), (1, 1, 1, 1, 1, 1)])
def test_the_cut_changes_nothing(tiles, other_chain, decode, told, excused, clips, alone) -> None:
    """The recipe's own cut is [3, 3]."""
    runner = Runner(other_chain(tiles=tiles), Size(1, 10 * RATE))
    for clip, expected in zip(clips, alone, strict=True):
        (found,) = decode(runner, clip)

        def again(forced: tuple[int, ...], clip: np.ndarray = clip, found=found):
            return told(decode(runner, clip, forced=forced)[0] if forced else found)

        if not excused(told(expected), again, FLOAT32):
            assert found.frames == expected.frames
            np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-3)


def test_attention_is_the_same_however_the_decoder_is_cut(
    other_chain, runner, decode, clips
) -> None:
    (expected,) = decode(runner, clips[0], align=True)
    assert expected.align is not None
    assert expected.align.shape == (len(expected.tokens), expected.frame_count)
    np.testing.assert_allclose(expected.align.sum(axis=1), 1.0, atol=1e-4)
    assert expected.align.argmax(axis=1).tolist() == list(expected.frames)
    for tiles in ((6,), (1, 1, 1, 1, 1, 1)):
        other = Runner(other_chain(tiles=tiles), Size(1, 10 * RATE))
        (found,) = decode(other, clips[0], align=True)
        np.testing.assert_allclose(found.align, expected.align, atol=1e-4)


def test_a_batch_of_other_lengths_gives_the_same(runner, decode, told, excused, clips, alone):
    batch = clips[:3] + clips[4:]
    together = decode(runner, *batch)
    for row, (found, expected) in enumerate(zip(together, alone[:3] + alone[4:], strict=True)):
        assert found.frame_count == expected.frame_count

        def again(forced: tuple[int, ...], row: int = row, found=found):
            return told(decode(runner, *batch, forced=forced)[row] if forced else found)

        excused(told(expected), again, FLOAT32)
        np.testing.assert_allclose(found.logprobs, expected.logprobs, atol=1e-3)


def test_what_lies_behind_the_audio_is_not_heard(loaded, greedy, told, excused, clips, alone):
    """A row longer than its audio, with the loudest garbage where there should be silence."""
    lane = Lane(loaded.chain, Size(1, 12 * RATE))
    random = np.random.default_rng(5)
    for clip, expected in zip(clips[:2], alone, strict=False):
        lane.audio.host[...] = random.normal(0, 30, lane.audio.shape)
        assert (
            excused(told(expected), lambda forced, clip=clip: greedy(lane, clip, forced), FLOAT32)
            == 0
        )
        assert lane.memory_length.host[0] == expected.frame_count


def test_passes_of_many_tokens_and_of_one_agree(loaded, greedy, told, excused, clips, alone):
    """The fast path (drafts, forced prefixes, two caches in turn) against one token at a time."""
    clip, expected = clips[0], alone[0]
    lane = Lane(loaded.chain, Size(1, len(clip)))
    excused(told(expected), lambda forced: greedy(lane, clip, forced), FLOAT32)


def test_float16_says_the_same(other_chain, decode, told, excused, clips, alone) -> None:
    runner = Runner(other_chain("fp16"), Size(1, 10 * RATE))
    assert runner.chain.dtype == np.float16
    exceptions, compared = 0, 0
    for clip, expected in zip(clips, alone, strict=True):

        def again(forced: tuple[int, ...], clip: np.ndarray = clip):
            return told(decode(runner, clip, forced=forced)[0])

        exceptions += excused(told(expected), again, FLOAT16)
        compared += len(expected.tokens)
    assert exceptions <= compared // 20

"""A streamed segment, hop by hop: the draft check against a decode from scratch."""

from pathlib import Path

import numpy as np
import pytest

from edge_runtime.audio import RATE
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.shape import ModelShape, load_shape
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.errors import AudioError, DeviceError, ModelDamaged, ModelMissing

FLOAT32 = 1e-3
CLIPS = ["1867-154075-0005", "7367-86737-0006"]


@pytest.mark.parametrize("name", CLIPS)
def test_a_draft_changes_no_token(runner, decode, told, excused, spoken, name: str) -> None:
    clip = spoken(name)
    draft: tuple[int, ...] = ()
    drafted = scratch = 0
    for end in range(RATE // 2, len(clip), RATE // 2):
        (slow,) = decode(runner, clip[:end])
        (fast,) = decode(runner, clip[:end], draft=draft)
        excused(
            told(slow),
            lambda forced, end=end, fast=fast: told(
                decode(runner, clip[:end], forced=forced)[0] if forced else fast
            ),
            FLOAT32,
        )
        assert fast.frames == slow.frames
        np.testing.assert_allclose(fast.logprobs, slow.logprobs, atol=1e-3)
        assert fast.cost.passes <= slow.cost.passes
        assert fast.cost.drafted == len(draft)
        assert slow.cost.steps == slow.cost.passes == slow.cost.produced
        drafted += fast.cost.passes
        scratch += slow.cost.passes
        draft = fast.tokens
    # It is worth it: less than half the passes.
    assert drafted < scratch / 2


def test_a_forced_prefix_is_followed_by_what_the_model_says_then(runner, decode, spoken) -> None:
    clip = spoken(CLIPS[0])
    (free,) = decode(runner, clip)
    (same,) = decode(runner, clip, forced=free.tokens[:5])
    assert same.tokens == free.tokens
    assert same.cost.passes == free.cost.passes - 5
    other = (*free.tokens[:3], 100)
    (forced,) = decode(runner, clip, forced=other)
    assert forced.tokens[:4] == other
    assert forced.margins[3] == 0.0
    assert forced.logprobs[3] < -0.7
    assert forced.logprobs[:3] == pytest.approx(free.logprobs[:3], abs=1e-3)
    (drafted,) = decode(runner, clip, forced=other, draft=free.tokens[4:])
    assert drafted.tokens == forced.tokens


def test_drafts_of_a_batch_do_not_touch_each_other(runner, decode, told, excused, spoken) -> None:
    """Rows with right, wrong and no drafts, of other lengths, in the same passes."""
    one, two = (spoken(name) for name in CLIPS)
    clips = [one, two, one[: 2 * RATE], two[: 3 * RATE]]
    alone = [decode(runner, clip)[0] for clip in clips]
    drafts = [alone[0].tokens, alone[0].tokens, (), (5, 6, 7)]
    updates = [
        Update("test", row, Purpose.PARTIAL, 0, len(clip), draft=draft, align=row % 2 == 1)
        for row, (clip, draft) in enumerate(zip(clips, drafts, strict=True))
    ]
    together = runner.run(updates, [[clip] for clip in clips])
    for row, (found, expected) in enumerate(zip(together, alone, strict=True)):
        assert found.update is updates[row]

        def again(forced: tuple[int, ...], row: int = row, found=found):
            return told(decode(runner, *clips, forced=forced)[row] if forced else found)

        excused(told(expected), again, FLOAT32)
    assert together[0].cost.accepted == len(alone[0].tokens)
    assert together[0].align is None
    for row in (1, 3):
        (expected,) = decode(runner, clips[row], align=True)
        np.testing.assert_allclose(together[row].align, expected.align, atol=1e-4)


def test_rows_that_go_on_take_the_places_of_those_that_are_done(
    loaded, decode, spoken, monkeypatch
) -> None:
    """Nobody after them decodes rows for nothing, and each row stays itself."""
    long, short = spoken(CLIPS[0]), spoken(CLIPS[1])[: 2 * RATE]
    runner = Runner(loaded.chain, Size(3, len(long)))
    alone = [decode(runner, clip, align=True)[0] for clip in (short, long, long)]
    # In front lies who has least of a draft; the long clips' are refused at once.
    drafts = [(), (5,) * 40, (7, *alone[2].tokens[1:])]
    updates = [
        Update("test", row, Purpose.PARTIAL, 0, len(clip), draft=draft, align=True)
        for row, (clip, draft) in enumerate(zip((short, long, long), drafts, strict=True))
    ]
    rows, real = [], runner.lane.decode
    monkeypatch.setattr(
        runner.lane, "decode", lambda shape, align: (rows.append(shape.rows), real(shape, align))
    )
    found = runner.run(updates, [[short], [long], [long]])
    assert [each.tokens for each in found] == [each.tokens for each in alone]
    for each, expected in zip(found, alone, strict=True):
        np.testing.assert_allclose(each.logprobs, expected.logprobs, atol=1e-3)
        np.testing.assert_allclose(each.align, expected.align, atol=1e-4)
    assert rows == sorted(rows, reverse=True)
    assert set(rows) == {3, 2, 1}
    ends = [found[row].cost.passes for row in (0, 1, 2)]
    assert sum(rows) == sum(ends)
    assert len(alone[0].tokens) < 12 < len(alone[1].tokens)
    assert runner.lane.stream.counters.copied == {}


def test_the_limit_is_kept(runner, decode, spoken) -> None:
    (cut,) = decode(runner, spoken(CLIPS[0]), limit=6)
    (whole,) = decode(runner, spoken(CLIPS[0]))
    assert cut.tokens == whole.tokens[:6]
    assert not cut.ended
    assert whole.ended


def test_audio_in_pieces_is_the_same(runner, decode, spoken) -> None:
    clip = spoken(CLIPS[0])
    (whole,) = decode(runner, clip)
    update = Update("test", 0, Purpose.FINAL, 0, len(clip))
    (pieces,) = runner.run([update], [[clip[:12_345], clip[12_345:]]])
    assert pieces.tokens == whole.tokens
    assert pieces.logprobs == whole.logprobs


@pytest.mark.parametrize("samples", [0, 1, 894, 895])
def test_audio_too_short_for_a_frame_is_decoded_as_one(runner, decode, samples: int) -> None:
    (hypothesis,) = decode(runner, np.zeros(samples, np.float32), align=True)
    assert hypothesis.frame_count == 1
    assert hypothesis.align.shape == (len(hypothesis.tokens), 1)


def test_costs_say_where_the_time_went(runner, decode, spoken) -> None:
    (hypothesis,) = decode(runner, spoken(CLIPS[0]))
    cost = hypothesis.cost
    assert 0 < cost.encode < cost.busy < 10
    assert cost.busy == cost.encode + cost.draft + cost.decode
    assert cost.produced == len(hypothesis.tokens) + 1


def test_what_does_not_fit_in_a_lane(loaded, runner, decode) -> None:
    small = Runner(loaded.chain, Size(1, RATE))
    with pytest.raises(AudioError, match="does not fit in 1 rows of 16000"):
        decode(small, np.zeros(RATE + 1, np.float32))
    with pytest.raises(AudioError, match="batch of 5 rows"):
        decode(runner, *[np.zeros(1000, np.float32)] * 5)
    # It goes on working.
    assert decode(small, np.zeros(RATE, np.float32))[0].frame_count == 40


def test_many_updates_take_no_more_memory(loaded, decode, spoken) -> None:
    """Updates of changing lengths and drafts, as a session asks for them."""
    clip = spoken(CLIPS[0])
    runner = Runner(loaded.chain, Size(1, len(clip)))

    def hops() -> None:
        draft: tuple[int, ...] = ()
        for end in range(RATE, len(clip), RATE):
            draft = decode(runner, clip[:end], draft=draft)[0].tokens

    def grown() -> int:
        before = resident()
        for _ in range(5):
            hops()
        return resident() - before

    for _ in range(3):
        hops()
    # The process holds much else, which may move once; what is lost is lost each time.
    assert min(grown() for _ in range(3)) < 1 << 20


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_a_folder_that_is_no_model(loaded, tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"shape.json does not exist.*edge-runtime pull"):
        Chain(loaded.device, tmp_path)
    (tmp_path / "shape.json").write_text('{"width": "wide"}')
    with pytest.raises(ModelDamaged, match=r"shape\.json"):
        load_shape(tmp_path, ModelShape)


def test_the_shape_knows_its_frames(loaded) -> None:
    shape = loaded.chain.shape
    assert shape.frames(16 * RATE) == 665
    assert shape.shortest == 895
    assert (shape.frames(895), shape.frames(894), shape.frames(0)) == (1, 0, 0)
    assert shape.frame_seconds == 0.024


def test_answers_that_are_no_numbers_fail_the_update_and_not_the_lane(
    runner, decode, spoken, monkeypatch
) -> None:
    clip = spoken(CLIPS[0])
    (before,) = decode(runner, clip)
    answers = runner.lane.answers

    def spoilt(*given):
        return {**(said := answers(*given)), "logprob": np.full_like(said["logprob"], np.nan)}

    monkeypatch.setattr(runner.lane, "answers", spoilt)
    with pytest.raises(DeviceError, match="NaN or infinity"):
        decode(runner, clip)
    monkeypatch.undo()
    (after,) = decode(runner, clip)
    assert after.tokens == before.tokens

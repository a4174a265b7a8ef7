"""The split: deterministic, disjoint, near its share, with no speaker on both sides if possible."""

import numpy as np
import pytest

from edge_runtime.engines.calibrate.clips import Clip
from edge_runtime.engines.calibrate.split import split
from edge_runtime.errors import CalibrationError


def clip(name, seconds=10.0, transcript="words", speaker="", chapter="", source=""):
    return Clip(
        name, source or name, np.zeros(int(seconds * 16000), np.float32), transcript,
        speaker, chapter,
    )  # fmt: skip


def people(speakers, each, seconds=10.0):
    return [
        clip(f"{s}-{k}", seconds, speaker=f"s{s}", chapter=f"s{s}-{k % 2}")
        for s in range(speakers)
        for k in range(each)
    ]


def seconds(clips):
    return sum(each.seconds for each in clips)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("holdout", [0.1, 0.3, 0.5])
def test_speakers_stay_together_near_the_share(seed, holdout):
    clips = people(12, 5)
    parts = split(clips, holdout, seed)
    assert sorted([*parts.ranges, *parts.holdout], key=lambda c: c.name) == sorted(
        clips, key=lambda c: c.name
    )
    assert not {c.speaker for c in parts.ranges} & {c.speaker for c in parts.holdout}
    assert parts.shared == ()
    assert parts.share == pytest.approx(holdout, abs=0.05)


def test_the_same_seed_gives_the_same_parts_in_any_order_and_another_gives_others():
    clips = people(12, 5)
    assert split(clips, seed=3) == split(clips[::-1], seed=3)
    assert split(clips, seed=3) != split(clips, seed=4)
    assert list(split(clips).holdout) == sorted(split(clips).holdout, key=lambda c: c.name)


def test_chapters_part_where_speakers_cannot():
    parts = split(people(1, 20), 0.4)
    assert not {c.chapter for c in parts.ranges} & {c.chapter for c in parts.holdout}
    assert parts.share == 0.5
    assert parts.shared == ("s0",)


def test_one_speaker_of_one_chapter_is_split_by_recordings():
    parts = split([clip(f"{k}", speaker="s", chapter="s-1") for k in range(10)], 0.3)
    assert parts.share == pytest.approx(0.3)
    assert parts.shared == ("s",)


def test_pieces_of_a_recording_stay_together_where_there_are_others():
    clips = [clip(f"{r}-{k}", source=f"r{r}") for r in range(6) for k in range(4)]
    parts = split(clips, 0.3)
    assert not {c.source for c in parts.ranges} & {c.source for c in parts.holdout}
    one = split([clip(f"{k}", source="r") for k in range(10)], 0.3)
    assert len(one.holdout) == 3
    assert one.shared == ()


def test_a_speaker_with_nearly_everything_is_split():
    clips = [*people(1, 30), clip("other", 5, speaker="s9", chapter="s9-1")]
    parts = split(clips, 0.3)
    assert 0.15 <= parts.share <= 0.6
    assert parts.shared == ("s0",)


@pytest.mark.parametrize(("count", "held"), [(1, 1), (2, 1), (4, 1), (10, 3)])
def test_non_speech_is_split_apart_and_the_gate_comes_first(count, held):
    noise = [clip(f"noise {k}", transcript="") for k in range(count)]
    parts = split(people(10, 3) + noise, 0.3)
    assert len([c for c in parts.holdout if c.speechless]) == held
    assert len([c for c in parts.ranges if c.speechless]) == count - held


def test_two_clips_make_two_parts():
    parts = split([clip("a", 90), clip("b", 10)])
    assert [c.name for c in parts.ranges] == ["a"]
    assert [c.name for c in parts.holdout] == ["b"]


def test_what_cannot_be_split_is_refused():
    with pytest.raises(CalibrationError, match="1 recordings of speech"):
        split([clip("a"), clip("b", transcript="")])
    for share in (0.0, 1.0, float("nan")):
        with pytest.raises(CalibrationError, match="Choose one from"):
            split(people(3, 3), share)

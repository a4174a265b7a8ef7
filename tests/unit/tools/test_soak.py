"""A soak without a server: what is kept, what it says of it, and what is fed."""

from __future__ import annotations

import random

import numpy as np
import pytest
from soaking import feed, main
from soaking.sessions import Found
from soaking.state import Reading, State

from edge_runtime import events
from edge_runtime.audio import RATE
from edge_runtime.bench.manifest import Clip
from edge_runtime.bench.take import Arrival, Take
from edge_runtime.errors import ConfigError

MB = 2**20


def readings(part, *hops, resident=400 * MB, grows=0, slower=1.0):
    """Half hours of 100 hops; by the clock each takes `slower` times as long."""
    return [
        Reading(part, 1800.0, hop * 100, hop * 100 * slower, 100, resident + number * grows, 60.0)
        for number, hop in enumerate(hops)
    ]


def test_what_was_read_is_there_again_and_the_file_says_how_it_went(tmp_path):
    path = tmp_path / "soak.json"
    state = State(36_000, sparse=True, seed="7", parts=2, errors=["it broke"])
    state.readings += readings(1, 0.1, 0.1) + readings(2, 0.1, 0.1)
    state.write(path)
    assert State.read(path) == state
    assert '"hours": 2.0' in path.read_text()
    assert main._state(path, 36_000, sparse=True) == state
    with pytest.raises(SystemExit, match="other options"):
        main._state(path, 36_000, sparse=False)
    path.write_text("{}")
    with pytest.raises(ConfigError, match="is not the state of a soak"):
        State.read(path)


def test_the_last_hour_is_compared_with_the_first_over_all_parts():
    state = State(1e6, sparse=False, seed="", parts=2)
    state.readings += readings(1, 0.10, 0.10, 0.3, 0.3) + readings(2, 0.3, 0.12, 0.12)
    assert state.hop == pytest.approx(1.2)
    assert state.clock == pytest.approx(1.2)
    assert state.wrong == ["a hop costs 1.200 × what it did in the first hour"]


def test_what_else_the_machine_does_is_not_held_against_it():
    state = State(1e6, sparse=False, seed="", parts=2)
    state.readings += readings(1, 0.1, 0.1) + readings(2, 0.1, 0.1, slower=3)
    assert state.clock == pytest.approx(3)
    assert state.hop == pytest.approx(1)
    assert state.wrong == []


def test_little_audio_says_nothing_yet():
    state = State(1e6, sparse=False, seed="", parts=1)
    assert (state.hop, state.slope) == (None, None)
    state.readings += readings(1, 0.1, 0.2, grows=50 * MB)
    assert state.slope is None
    assert state.wrong == []


def test_memory_that_grows_within_a_part_is_told_and_a_start_is_not():
    state = State(1e6, sparse=False, seed="", parts=2)
    state.readings += readings(1, *[0.1] * 4, resident=900 * MB)
    state.readings += readings(2, *[0.1] * 5, grows=MB)
    assert state.slope == pytest.approx(2 * MB)
    assert state.wrong == ["memory grows by 2.00 MB an hour of audio"]


@pytest.fixture
def clips(tmp_path):
    made = [Clip(str(seconds), tmp_path, "ONE", "") for seconds in (2, 4)]
    for clip in made:
        clip.__dict__["pcm"] = np.full(int(clip.name) * RATE, 0.1, np.float32)
    return made


def test_a_sparse_block_is_a_tenth_speech_and_the_other_all(clips):
    pcm, spoken = feed.block(random.Random(1), clips, [], sparse=True)
    assert spoken / (len(pcm) / RATE) == pytest.approx(0.1, abs=1e-3)
    assert np.count_nonzero(pcm) == spoken * RATE
    pcm, spoken = feed.block(random.Random(1), clips, [], sparse=False)
    assert len(pcm) == spoken * RATE
    assert spoken >= feed.BLOCK


def test_every_hour_is_the_same_sessions_of_an_hour_together(clips):
    talks = feed.hour("7", clips, [], sparse=True, longest=10)
    assert sum(talk.playing.repeat for talk in talks) == 60
    assert max(talk.playing.repeat for talk in talks) <= 10
    assert {talk.playing.partials for talk in talks} == {True, False}
    length = sum(len(talk.pcm) * talk.playing.repeat for talk in talks) / RATE
    assert sum(talk.spoken for talk in talks) / length == pytest.approx(0.1, abs=1e-3)
    again = feed.hour("7", clips, [], sparse=True, longest=10)
    assert [talk.playing for talk in again] == [talk.playing for talk in talks]
    assert all(np.array_equal(a.pcm, b.pcm) for a, b in zip(again, talks, strict=True))


def test_turns_without_a_final_and_texts_taken_back_are_wrong():
    def final(text, turn):
        return events.Final(
            segment=turn, turn=turn, reason="stop", text=text, start=0, end=1, logprob=-0.1
        )

    told = [
        events.SpeechStart(segment=1, turn=1, at=0.0),
        events.Partial(segment=1, stable="One two", unstable="", start=0.0, end=1.0),
        final("One three.", 1),
        events.SpeechStart(segment=2, turn=2, at=2.0),
        events.Warning(code="busy", message="Wait."),
        events.Warning(code="device", message="It broke."),
    ]
    take = Take("a", 3.0, tuple(Arrival(0.0, each) for each in told))
    assert feed.wrong(take) == [
        "turn 2 has no final",
        "warning device: It broke.",
        "a final does not begin with 'One two'",
    ]


def test_sessions_that_leave_something_behind_are_told_once_pools_are_full():
    found = Found(10_000, 50)
    assert found.slope is None
    found.points = [(500, 300 * MB)] + [(n, 400 * MB + n * 2048) for n in range(1000, 4000, 500)]
    assert found.slope == pytest.approx(1000 * 2048)
    assert found.record()["slope"] == found.slope

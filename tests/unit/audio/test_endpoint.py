"""Turns follow the probabilities by the written rules, in the written order."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.audio import FRAME
from edge_runtime.audio.endpoint import Endpoint, Endpointer, Onset, Resumed, Silence, Verdict
from edge_runtime.config import Listening

LISTENING = Listening(lag_ms=0, tail_ms=160, release=0.5)

LEGAL = {
    None: {Onset},
    Onset: {Silence},
    Silence: {Resumed, Endpoint},
    Resumed: {Silence},
    Endpoint: {Onset},
}


def hear(endpointer: Endpointer, *runs: tuple[float, int]) -> list[Verdict]:
    return [
        verdict
        for probability, frames in runs
        for _ in range(frames)
        for verdict in endpointer.heard(probability)
    ]


def position(verdict: Verdict) -> int:
    return verdict.at if isinstance(verdict, (Onset, Resumed)) else verdict.last


def test_a_turn_from_onset_to_endpoint() -> None:
    endpointer = Endpointer(LISTENING, 500)
    assert hear(endpointer, (0.1, 10), (0.9, 20), (0.2, 16)) == [
        Onset(10 * FRAME),
        Silence(30 * FRAME),
        Endpoint(30 * FRAME),
    ]
    assert endpointer.heard_samples == 46 * FRAME
    assert endpointer.last == 30 * FRAME
    assert not endpointer.silent


def test_the_detectors_lag_counts_as_silence() -> None:
    endpointer = Endpointer(Listening(lag_ms=64, tail_ms=96, release=0.5), 500)
    assert hear(endpointer, (0.9, 20), (0.2, 13)) == [Onset(0), Silence(20 * FRAME)]
    assert hear(endpointer, (0.2, 1)) == [Endpoint(20 * FRAME)]


def test_weak_words_hang_on_to_a_turn_but_begin_none() -> None:
    endpointer = Endpointer(Listening(), 500)
    assert hear(endpointer, (0.2, 50)) == []
    assert hear(endpointer, (0.9, 20), (0.2, 50)) == [Onset(50 * FRAME)]
    assert endpointer.last == 120 * FRAME
    assert hear(endpointer, (0.19, 20)) == [Silence(120 * FRAME), Endpoint(120 * FRAME)]


def test_each_verdict_comes_with_the_frame_that_completes_it() -> None:
    endpointer = Endpointer(LISTENING, 500)
    came = {}
    for frame in range(40):
        for verdict in endpointer.heard(0.9 if 5 <= frame < 15 else 0.0):
            came[type(verdict)] = frame
    # 4 frames of evidence; 160 ms are 5 frames; 500 ms end within the 16th.
    assert came == {Onset: 8, Silence: 19, Endpoint: 30}


def test_speech_resumes_before_the_endpoint() -> None:
    endpointer = Endpointer(LISTENING, 500)
    verdicts = hear(endpointer, (0.9, 10), (0.0, 15), (0.6, 1), (0.0, 16))
    assert verdicts == [
        Onset(0),
        Silence(10 * FRAME),
        Resumed(25 * FRAME),
        Silence(26 * FRAME),
        Endpoint(26 * FRAME),
    ]


def test_a_pause_shorter_than_the_tail_is_nothing() -> None:
    endpointer = Endpointer(LISTENING, 500)
    assert hear(endpointer, (0.9, 10), (0.0, 4), (0.9, 10), (0.0, 4)) == [Onset(0)]
    assert not endpointer.silent


@pytest.mark.parametrize(
    "runs",
    [
        [(0.95, 3), (0.0, 30)],  # too few frames
        [(0.7, 200)],  # none of them strong
        [(0.49, 200)],
        [(0.95, 3), (0.0, 10), (0.95, 3), (0.0, 10)] * 5,  # 320 ms apart: forgotten
    ],
)
def test_noise_below_the_evidence_is_nothing(runs: list[tuple[float, int]]) -> None:
    endpointer = Endpointer(LISTENING, 500)
    assert hear(endpointer, *runs) == []


def test_evidence_adds_up_over_gaps_under_320_ms() -> None:
    endpointer = Endpointer(LISTENING, 500)
    assert hear(endpointer, (0.1, 3), (0.6, 2), (0.0, 9), (0.6, 1), (0.0, 9)) == []
    assert endpointer.onset_pending == 3 * FRAME
    assert hear(endpointer, (0.85, 1)) == [Onset(3 * FRAME)]
    assert endpointer.onset_pending is None


def test_a_forgotten_run_leaves_nothing_pending() -> None:
    endpointer = Endpointer(LISTENING, 500)
    hear(endpointer, (0.9, 2), (0.0, 9))
    assert endpointer.onset_pending == 0
    hear(endpointer, (0.0, 1))
    assert endpointer.onset_pending is None


def test_a_weak_run_asks_for_no_more_than_half_a_cap() -> None:
    endpointer = Endpointer(Listening(lag_ms=0, tail_ms=160, release=0.5, cap_ms=16000), 500)
    hear(endpointer, (0.6, 1000))
    assert endpointer.onset_pending == endpointer.heard_samples - 8 * 16000
    assert hear(endpointer, (0.9, 1)) == [Onset(endpointer.heard_samples - 8 * 16000)]


def test_a_short_endpoint_is_never_before_the_silence() -> None:
    endpointer = Endpointer(Listening(lag_ms=0, tail_ms=320, release=0.5), 200)
    assert hear(endpointer, (0.9, 8), (0.0, 9)) == [Onset(0)]
    assert hear(endpointer, (0.0, 1)) == [Silence(8 * FRAME), Endpoint(8 * FRAME)]


def test_restart_ends_the_turn_at_once_and_listens_on() -> None:
    endpointer = Endpointer(LISTENING, 500)
    hear(endpointer, (0.9, 8))
    endpointer.restart()
    assert hear(endpointer, (0.9, 3)) == []
    assert hear(endpointer, (0.9, 1)) == [Onset(8 * FRAME)]
    hear(endpointer, (0.0, 5))
    endpointer.restart()
    assert not endpointer.silent
    assert hear(endpointer, (0.0, 30)) == []


def test_dropped_audio_moves_positions_and_is_no_silence() -> None:
    endpointer = Endpointer(LISTENING, 500)
    hear(endpointer, (0.9, 4), (0.0, 4))
    endpointer.skip(16000)
    assert endpointer.heard_samples == 8 * FRAME + 16000
    assert hear(endpointer, (0.0, 1)) == [Silence(4 * FRAME)]
    assert hear(endpointer, (0.9, 1)) == [Resumed(9 * FRAME + 16000)]


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.3, 0.5, 0.7, 0.8, 1.0]), st.integers(1, 25))),
    st.integers(200, 2000),
    st.integers(32, 480),
)
def test_the_order_of_verdicts(
    runs: list[tuple[float, int]], endpoint_ms: int, tail_ms: int
) -> None:
    endpointer = Endpointer(Listening(lag_ms=0, tail_ms=tail_ms, release=0.5), endpoint_ms)
    verdicts: list[Verdict] = []
    frames: list[float] = []
    for probability, count in runs:
        for _ in range(count):
            pending = endpointer.onset_pending
            new = endpointer.heard(probability)
            verdicts += new
            frames.append(probability)
            assert endpointer.heard_samples == len(frames) * FRAME
            for verdict in new:
                assert 0 <= position(verdict) <= endpointer.heard_samples
                if isinstance(verdict, Onset):
                    # What had to be kept for it was said before it came.
                    assert pending is None or pending == verdict.at
                    run = frames[verdict.at // FRAME :]
                    assert sum(p >= 0.5 for p in run) >= 4
                    assert max(run) >= 0.8
                if isinstance(verdict, (Silence, Endpoint)):
                    assert frames[verdict.last // FRAME - 1] >= 0.5
                    quiet = frames[verdict.last // FRAME :]
                    assert max(quiet) < 0.5
                    least = tail_ms if isinstance(verdict, Silence) else endpoint_ms
                    assert least - 32 < len(quiet) * 32
    kinds = [None, *map(type, verdicts)]
    assert all(after in LEGAL[before] for before, after in pairwise(kinds))
    positions = [position(verdict) for verdict in verdicts]
    assert positions == sorted(positions)
    assert endpointer.silent == (kinds[-1] is Silence)


@given(st.lists(st.floats(0, 0.79), max_size=300))
def test_without_a_strong_frame_nothing_ever_begins(frames: list[float]) -> None:
    endpointer = Endpointer(LISTENING, 500)
    assert [endpointer.heard(probability) for probability in frames] == [[]] * len(frames)

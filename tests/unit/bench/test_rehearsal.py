"""Streams played in thought: what they wait for, and what lanes are at."""

from dataclasses import replace

import pytest

from edge_runtime.bench.costs import PADDING
from edge_runtime.bench.course import Course
from edge_runtime.decode.update import Purpose
from edge_runtime.runtime.ladder import STEPS
from tests.rehearsing import COSTS, play, turn


def last(values):
    return sorted(values)[-max(1, len(values) // 20)]


def test_what_was_guessed_in_the_silence_is_there_at_the_endpoint():
    met = play(1, replace(COSTS, rest=0.02))
    assert met.finals
    assert met.finals == pytest.approx([0.42] * len(met.finals))
    assert met.waits == pytest.approx([0.0] * len(met.waits))
    assert not met.updates[Purpose.FINAL]


def test_what_is_decoded_after_the_endpoint_comes_later_by_that():
    met = play(1, replace(COSTS, fixed=0.5), [turn(2.0)])
    # A guess begins 0.1 s after the end, and is under way at the endpoint; no pause, no text.
    begun, window = 0.1, 0.4 + 2.0 + 0.096
    assert met.finals[0] >= begun + 0.5 + COSTS.each * window
    assert min(met.waits) > 0


def test_more_wait_longer_and_it_is_the_same_each_time():
    few, some, many = (play(streams) for streams in (2, 16, 60))
    assert last(few.finals) < last(some.finals) < last(many.finals)
    assert play(16) == some


def test_they_give_way_by_the_ladder():
    assert [play(streams).level > 0 for streams in (1, 4, 20)] == [False, False, True]
    assert not STEPS[play(90).level].admits
    assert play(20).updates[Purpose.PARTIAL] < 3 * play(4).updates[Purpose.PARTIAL]


def test_partials_come_each_hop_and_guesses_in_each_pause():
    alone = replace(COSTS, each=0.0, square=0.0, tokens=0.0, partial=0.0, fixed=0.05)
    met = play(1, alone, [turn(4.0, (1.5,))], 60.0)
    turns = len(met.rests)
    assert met.updates[Purpose.SPECULATIVE] == pytest.approx(2 * turns, abs=2)
    hop = 0.3  # 5.5 times the cost, in whole pieces of 0.1 s
    assert met.updates[Purpose.PARTIAL] == pytest.approx(turns * 4.0 / hop, rel=0.15)
    assert met.busy == pytest.approx(0.05 * sum(met.updates.values()), rel=0.02)
    assert met.both == 0.0


def test_an_update_has_what_is_new_and_all_tokens_are_said_once():
    met = play(1, replace(COSTS, partial=0.0, closing=0.0), [turn(4.0)], 60.0)
    said = 0.4 - PADDING + 4.0 + 0.096
    assert sum(met.gaps.values()) == pytest.approx(len(met.rests) * said, rel=0.1)


def test_what_the_rest_takes_of_the_processors_slows_lanes_that_work_together():
    assert play(20, replace(COSTS, served=0.03)).busy > play(20).busy
    gpu = replace(COSTS, on_cpu=False, cores=16)  # there it is one interpreter that all share
    slow = play(20, replace(gpu, served=0.04))
    assert last(slow.finals) > last(play(20, gpu).finals)


def test_a_turn_without_an_end_is_cut():
    (onset, *_) = turn(1.0).moments
    met = play(1, COSTS, [Course((onset,), 40.0, None, 40.0, 43.0)], 60.0)
    ends = 2 + 1  # two cuts at 16 s, and the end of the clip
    assert met.updates[Purpose.FINAL] == ends + 1  # the next one is cut once
    assert not met.finals
    assert met.rests == pytest.approx([3.3 + COSTS.between], abs=0.1)  # its last final took 0.3 s

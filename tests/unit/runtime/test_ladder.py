"""The ladder of overload: when it is climbed, and when it is gone down again."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.runtime.ladder import CALM, HIGH, LATE, LOW, MEMORY, RISE, STEPS, Ladder

COST = 0.1  # s of a partial: every 0.5 s, by the factor


def ladder(finals: float = 0.0) -> Ladder:
    made = Ladder(hop=0.2, factor=5.0)
    made.spent(0.0, COST, partial=True)
    if finals:
        made.spent(0.0, finals * MEMORY, partial=False)
    return made


def test_what_is_asked_is_partials_of_speakers_and_finals_of_late() -> None:
    made = ladder(finals=0.5)
    assert made.demand(0.0, 0, 3) == pytest.approx(0.5 + 3 * COST / 0.5)
    assert made.demand(0.0, 1, 3) == pytest.approx(0.5 + 3 * COST / 1.0)
    assert made.demand(0.0, 4, 3) == pytest.approx(0.5 + 3 * COST / 8.0)
    assert made.demand(0.0, 5, 3) == made.finals(0.0) == 0.5
    assert made.finals(MEMORY) == pytest.approx(0.5 / math.e)


def test_finals_are_a_rate_whatever_their_number() -> None:
    made = Ladder(0.2, 5.0)
    for turn in range(1000):
        made.spent(turn / 10, 0.03, partial=False)  # 30 % of a lane
    assert made.finals(100.0) == pytest.approx(0.3, rel=0.02)


def test_who_sends_files_at_once_is_no_crowd() -> None:
    made = Ladder(0.2, 5.0)
    for turn in range(1000):
        made.spent(turn / 10, 0.08, partial=False)  # 80 % of a lane
        made.heard(turn / 10, seconds=2.0, spoken=0.1)  # at twenty times the speed of speech
    assert made.finals(100.0) == pytest.approx(0.8 / 20, rel=0.02)


def test_cheap_partials_come_no_more_often_than_the_hop() -> None:
    made = Ladder(hop=0.2, factor=5.0)
    made.spent(0.0, 0.001, partial=True)
    assert made.demand(0.0, 0, 10) == pytest.approx(10 * 0.001 / 0.2)


def test_nothing_changes_while_there_is_room() -> None:
    made = ladder()
    assert not made.look(1.0, speakers=7, lanes=2)  # 1.4 of 2 lanes
    assert made.level == 0


def test_it_climbs_a_step_a_second_until_it_fits() -> None:
    made = ladder()
    speakers = 20  # 4 lanes; 2 at the first step, 1 at the second
    seen = [
        (tenth / 10, made.level)
        for tenth in range(60)
        if made.look(1 + tenth / 10, speakers, lanes=2)
    ]
    assert seen == [(0.0, 1), (RISE, 2)]


def test_partials_go_only_where_a_sixteenth_of_them_is_too_much() -> None:
    """On the way there they make finals cheaper: what a draft has need not be said again."""
    assert [step.hop for step in STEPS] == [1, 2, 4, 8, 16, math.inf, math.inf]
    made = ladder()
    for second in range(1, 20):
        made.look(second, speakers=100, lanes=2)  # 20 lanes, 10, 5, 2.5, 1.25
    assert made.level == 4
    assert made.demand(20.0, 4, 100) == pytest.approx(1.25)


def test_finals_alone_take_it_to_the_top_where_nobody_new_comes_in() -> None:
    made = ladder(finals=2.5)
    for second in range(1, 10):
        made.look(second, speakers=1, lanes=2)
    assert made.level == len(STEPS) - 1
    assert not made.step.admits


def test_it_goes_down_only_after_a_while_of_room_for_the_easier_step() -> None:
    made = ladder()
    made.look(1.0, speakers=9, lanes=2)  # 1.8 lanes
    assert made.level == 1
    at = 2.0
    while not made.look(at, speakers=7, lanes=2):  # 1.4 would be below HIGH, and above LOW
        at += 0.5
        if at > 60:
            break
    assert made.level == 1
    began = at
    while not made.look(at, speakers=5, lanes=2):
        at += 0.5
    assert at - began == pytest.approx(CALM)
    assert made.level == 0


def test_a_moment_of_speech_starts_the_wait_anew() -> None:
    made = ladder()
    made.look(1.0, speakers=9, lanes=2)
    for second in range(2, 60):
        made.look(second, speakers=8 if second % 8 == 0 else 1, lanes=2)
    assert made.level == 1


@given(
    st.lists(st.tuples(st.floats(0.01, 2.0), st.integers(0, 60)), max_size=200),
    st.integers(1, 8),
)
def test_it_never_rocks(waits: list[tuple[float, int]], lanes: int) -> None:
    """Two changes in opposite directions are at least CALM apart, whoever speaks when."""
    made, at, last = ladder(), 1.0, (0.0, 0)
    for wait, speakers in waits:
        at += wait
        before = made.level
        if made.look(at, speakers, lanes):
            way = made.level - before
            assert abs(way) == 1
            if way < 0 and last[1] > 0:
                assert at - last[0] >= CALM
            last = (at, way)


def test_the_easier_step_fits_below_where_it_was_left() -> None:
    assert LOW < HIGH < 1
    assert all(easier.hop <= harder.hop for easier, harder in itertools.pairwise(STEPS))
    assert [step.admits for step in STEPS] == [True] * (len(STEPS) - 1) + [False]


def test_a_host_that_hears_late_climbs_and_comes_down_when_it_hears_at_once() -> None:
    made = Ladder(hop=0.2, factor=5.0)
    assert made.look(2.0, speakers=5, lanes=2, late=LATE * 1.1)
    assert made.look(4.0, speakers=5, lanes=2, late=LATE * 1.1)
    assert made.level == 2
    for at in range(5, 40):
        made.look(at, speakers=5, lanes=2, late=LATE * 0.7)  # in time, and not by much
    assert made.level == 2
    for at in range(40, 40 + 3 * int(CALM)):
        made.look(at, speakers=5, lanes=2, late=0.01)
    assert made.level == 0


def test_a_few_that_were_held_up_are_no_crowd() -> None:
    made = Ladder(hop=0.2, factor=5.0)
    for _ in range(40):
        made.spent(0.0, 0.002, partial=True)
    for _ in range(10):
        made.spent(0.0, 0.07, partial=True)
    assert made.demand(0.0, 0, 46) == pytest.approx(46 * 0.002 / 0.2)

"""Limits along heating curves: in time, not rocking, and back to full."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.config import Power
from edge_runtime.power import FULL, Limits, Readings, govern
from edge_runtime.power.govern import LATER, tightest
from edge_runtime.power.limits import LANES, LEVELS, hop_of
from edge_runtime.power.readings import Mode, Zone
from tests.unit.power.heating import Board, changes, follow, run, zones

HOUR = 3600.0

boards = st.builds(
    Board,
    ambient=st.floats(10, 60),
    resistance=st.floats(0.8, 2.0),
    tau=st.floats(120, 900),
    idle=st.floats(3, 8),
    ours=st.floats(5, 40),
    throttles=st.sampled_from([95.0, 99.0, 104.5]),
    grain=st.sampled_from([0.03125, 0.5, 1.0]),
    die=st.floats(0, 0.25),
)


@given(board=boards, others=st.floats(20, 60))
@settings(max_examples=25)
def test_limits_come_before_the_board_throttles(board, others):
    """Also where others heat it, whom we cannot slow down: we have given way by then."""
    board = replace(board, idle=others)
    if (board.steady() - 45) / board.tau > 0.4:
        return  # hotter by 24 K in the minute that a change has to wait
    moments = run(board, HOUR / 2, start=45.0)
    throttled = [each for each in moments if each.celsius >= board.throttles]
    assert all(each.limits.level == LEVELS for each in throttled)


@given(board=boards)
@settings(max_examples=25)
def test_a_board_that_our_load_heats_never_throttles(board):
    """Where the last level would keep it well below, and it begins cool."""
    cold, spare = board.steady(ours=0.0), Power().margin
    if cold > board.throttles - spare or board.steady(Power().slowest) > board.throttles - 4:
        return
    for load in (None, lambda at: float(at > 600), lambda at: float(at % 1200 < 900)):
        assert max(each.celsius for each in run(board, HOUR / 2, load=load)) < board.throttles


@given(board=boards)
@settings(max_examples=12)
def test_no_board_is_rocked(board):
    moments = run(board, 4 * HOUR, Power(period_seconds=10.0))
    at = changes(moments)
    assert all(later - earlier >= 60 for earlier, later in pairwise(at))
    # a wait that doubles up to a quarter of an hour, and both ways to go
    assert len([second for second in at if second > HOUR]) <= 2 * 3 * HOUR / LATER + 4


@given(
    noise=st.lists(st.floats(20, 120, allow_nan=False), min_size=60, max_size=200),
    period=st.sampled_from([0.5, 2.0, 10.0]),
)
@settings(max_examples=40)
def test_whatever_the_curve_limits_change_once_a_minute_at_most(noise, period):
    moments = follow(
        [(count * period, celsius) for count, celsius in enumerate(noise)],
        Power(period_seconds=period),
    )
    assert all(later - earlier >= 60 for earlier, later in pairwise(changes(moments)))
    for each in moments:
        limits = each.limits
        assert 0 <= limits.level <= LEVELS
        assert limits.hop == hop_of(limits.level, 4.0)
        assert limits.lanes == LANES[limits.level]
        assert (limits.why is None) == (limits.level == 0)


@given(steps=st.lists(st.floats(0.0, 0.16), min_size=400, max_size=400))
@settings(max_examples=25)
def test_any_rise_that_takes_its_time_is_met_before_the_point(steps):
    """Up to 0.08 K a second, whatever its course: limits, and all of them, before 99 °C."""
    celsius, curve = 75.0, []
    for count, step in enumerate(steps):
        celsius += step
        curve.append((2.0 * count, celsius))
    hot = [each.limits.level for each in follow(curve) if each.celsius >= 98.5]
    assert min(hot, default=LEVELS) >= 3


@given(board=boards, busy=st.floats(600, 2400))
@settings(max_examples=12)
def test_a_board_that_cools_is_given_all_again(board, busy):
    if board.steady(ours=0.0) > board.throttles - 15:
        return
    moments = run(board, busy + 2 * HOUR, load=lambda at: float(at < busy))
    assert moments[-1].limits.level == 0
    assert moments[-1].limits.hop == moments[-1].limits.lanes == 1.0


@pytest.mark.parametrize(
    ("board", "levels"),
    [
        # an Orin NX in open air (see heating.py) stays below the margin
        (Board(ambient=25, resistance=1.35, idle=4.6, ours=24.4), {0}),
        # the same in a closed box
        (Board(ambient=62, resistance=1.35, idle=4.6, ours=24.4), {1, 2, 3}),
        # Thor with the fan it comes with: 109 °C under another's load, and it throttles there
        (Board(ambient=25, resistance=0.9, idle=90, ours=10, throttles=104.5), {LEVELS}),
    ],
)
def test_known_boards_settle(board, levels):
    moments = run(board, 4 * HOUR, start=45.0)
    last = [each for each in moments if each.at > 3 * HOUR]
    assert {each.limits.level for each in last} <= levels
    # at most a try every quarter of an hour, and back
    assert len([at for at in changes(moments) if at > 3 * HOUR]) <= 8


def test_a_recorded_soak_is_left_alone():
    """The 45 minutes that were published of an Orin NX: 58 °C at rest, 91 °C in the end."""
    soak = [(2.0 * count, 91 - 33 * math.exp(-count / 150)) for count in range(1350)]
    assert max(each.limits.level for each in follow(soak, throttles=104.5)) == 0
    levels = [each.limits.level for each in follow(soak, throttles=99.0)]
    assert levels[0] == 0
    assert levels[-1] in (1, 2), "8 K are left"


def test_the_way_back_gets_longer_where_heat_returns():
    """A board that is too hot at full power and cool at the first level."""
    board = Board(ambient=40, resistance=1.9, tau=120, idle=5, ours=22, throttles=99)
    assert board.steady() > 89
    assert board.steady(hop_of(1, 4.0)) < 86
    at = changes(run(board, 6 * HOUR))
    cycles = [later - earlier for earlier, later in pairwise(at[::2])]
    assert cycles[0] < cycles[-1]
    assert cycles[-1] >= LATER


def test_a_board_that_throttles_gets_the_last_level_at_once():
    (only,) = follow([(0.0, 60.0)], throttled=("gpu",))
    assert only.limits == Limits(LEVELS, 4.0, 0.0, "the board throttles: gpu", 0.0, 60.0)


def test_a_frugal_power_mode_is_the_first_level():
    mode = Mode(3, "7W", 0.4)
    (only,) = follow([(0.0, 40.0)], mode=mode)
    assert only.limits.level == 1
    assert only.limits.why == "power mode 7W leaves the GPU 40% of its clock"
    for share in (None, 0.6, 1.0):
        (only,) = follow([(0.0, 40.0)], mode=Mode(0, "15W", share))
        assert only.limits is FULL
    (only,) = follow([(0.0, 40.0)], Power(modes=False), mode=mode)
    assert only.limits is FULL
    (only,) = follow([(0.0, 98.0)], mode=mode)
    assert only.limits.level == LEVELS


def test_the_why_names_zone_heat_and_point():
    (only,) = follow([(0.0, 91.5)])
    assert only.limits.why == "tj-thermal is at 91.5 °C; it throttles at 99"
    rising = follow([(2.0 * count, 80 + 0.2 * count) for count in range(20)])
    assert "+6.0 K a minute; it throttles at 99" in (rising[-1].limits.why or "")


def test_one_hot_second_is_no_rise():
    curve = [(2.0 * count, 60.0 + 8.0 * (count == 5)) for count in range(20)]
    assert {each.limits.level for each in follow(curve)} == {0}


def test_the_zone_with_the_least_room_decides():
    two = (Zone("cpu", 80.0, {"passive": 83.0}), Zone("gpu", 90.0, {"passive": 99.0}))
    for order in (two, two[::-1]):
        room = tightest([Readings(0.0, order)])
        assert room is not None
        assert (room.zone, room.kelvin) == ("cpu", 3.0)


def test_a_rise_that_is_over_counts_no_more():
    recent = [Readings(2.0 * count, zones(min(50.0 + count, 80.0))) for count in range(46)]
    room = tightest(recent)
    assert room is not None
    assert room.slope == 0.0


def test_a_fall_makes_no_room():
    recent = [Readings(2.0 * count, zones(95.0 - 0.4 * count)) for count in range(16)]
    room = tightest(recent)
    assert room is not None
    assert room.slope == pytest.approx(-0.2)
    assert room.kelvin == pytest.approx(99 - 89)


@pytest.mark.parametrize(
    ("level", "celsius", "after"),
    [
        (1, 86.1, 1),
        (1, 85.9, 0),
        (2, 88.1, 2),
        (2, 87.9, 1),
        (5, 94.1, 5),
        (5, 93.9, 4),
        (5, 60, 4),
    ],
)
def test_limits_are_relaxed_where_it_is_cooler_than_they_began(level, celsius, after):
    before = Limits(level, since=0.0, patience=60.0)
    assert govern([Readings(59.0, zones(celsius))], before, Power()) is before
    limits = govern([Readings(60.0, zones(celsius))], before, Power())
    assert limits.level == after
    assert limits.relaxed == (after < level)


@pytest.mark.parametrize(
    ("waited", "relaxed", "patience"),
    [(100, True, 480), (100, False, 240), (700, True, 480), (899, True, 480), (900, True, 60)],
)
def test_heat_that_comes_back_soon_is_a_relapse(waited, relaxed, patience):
    before = Limits(0, since=0.0, patience=240.0, relaxed=relaxed)
    limits = govern([Readings(float(waited), zones(98.9))], before, Power())
    assert (limits.level, limits.patience, limits.relaxed) == (LEVELS, patience, False)


def test_without_sensors_there_are_no_limits():
    power = Power()
    assert govern([Readings(0.0)], FULL, power) is FULL
    bare = Readings(0.0, (Zone("Tboard", 120.0),))
    assert govern([bare], FULL, power) is FULL
    assert govern([bare], FULL, Power(throttle_celsius=80.0)) is FULL, "it tells no trip"
    hot = Limits(2, 2.5, 0.5, "heat", 0.0, 60.0)
    after = govern([Readings(61.0)], hot, power)
    assert (after.level, after.why) == (1, "no sensor tells of heat")


def test_the_owner_may_say_where_it_throttles():
    (only,) = follow([(0.0, 79.0)], Power(throttle_celsius=80.0))
    assert only.limits.level == LEVELS
    room = tightest([Readings(0.0, zones(78.0))], 80.0)
    assert room is not None
    assert room.kelvin == 2.0


def test_hop_and_lanes_by_level():
    hops = [round(hop_of(level, 4.0), 2) for level in range(LEVELS + 1)]
    assert hops == [1.0, 1.32, 1.74, 2.3, 3.03, 4.0]
    assert [Limits(5, lanes=0.0).most(n) for n in (0, 1, 2, 8)] == [1, 1, 1, 1]
    assert [Limits(1, lanes=0.8).most(n) for n in (1, 2, 5, 8)] == [1, 1, 4, 6]
    assert [FULL.most(n) for n in (1, 2, 4)] == [1, 2, 4]


def test_the_same_readings_give_the_same_limits():
    recent = [Readings(float(count), zones(85 + 0.3 * count)) for count in range(30)]
    copy = list(recent)
    assert govern(recent, FULL, Power()) == govern(recent, FULL, Power())
    assert recent == copy

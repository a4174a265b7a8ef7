"""The search for the most that hold, and what a rehearsal comes to."""

import math

import pytest

from edge_runtime.bench.capacity import foretold, largest, record, surely
from edge_runtime.bench.met import Met


@pytest.mark.parametrize("held", [0, 1, 2, 5, 8, 13, 64])
def test_the_most_is_found_by_doubling_and_halving(held):
    tried, told = [], []

    def holds(streams):
        tried.append(streams)
        return streams <= held

    assert largest(holds, 64, lambda low, high: told.append((low, high))) == held
    assert len(tried) == len(set(tried)) <= 13
    assert len(told) == len(tried)
    assert told[-1][0] == held


def test_from_what_is_expected_on_it_is_found_sooner():
    tried = []

    def holds(streams):
        tried.append(streams)
        return streams <= 23

    assert largest(holds, 512, first=20, growth=1.25) == 23
    assert tried == [20, 25, 22, 23, 24]
    tried.clear()
    assert largest(holds, 512, first=30, growth=1.25, near=0.1) == 22
    assert tried == [30, 24, 19, 21, 22]
    assert largest(lambda streams: False, 512, first=30, growth=1.25) == 0
    assert largest(lambda streams: True, 64, first=60, growth=1.25) == 64


def test_what_surely_holds_has_none_below_it_that_does_not():
    bad = {21, 22, 26}
    assert surely(lambda streams: streams < 30 and streams not in bad, 64) == 20
    assert surely(lambda streams: streams < 26 and streams not in bad, 64) == 20
    assert surely(lambda streams: streams <= 3, 64) == 3
    assert surely(lambda streams: False, 64) == 0


def test_what_a_rehearsal_comes_to():
    met = Met(finals=[0.5] * 18 + [0.8, 1.2], busy=90.0, level=2)
    found = foretold(7, met, 60.0)
    assert (found.streams, found.level, found.lanes) == (7, 2, 1.5)
    assert found.p95 == pytest.approx(0.82)
    assert record(found)["final.p95"] == pytest.approx(820)
    nothing = foretold(1, Met(), 60.0)
    assert nothing.p95 == math.inf
    assert record(nothing)["final.p95"] is None

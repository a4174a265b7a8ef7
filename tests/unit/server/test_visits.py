"""Sessions of each address: so many at a time, so many in a minute."""

from __future__ import annotations

import pytest

from edge_runtime.errors import NotAdmitted
from edge_runtime.server.visits import Visits


def refused(visits, address, now):
    with pytest.raises(NotAdmitted) as caught:
        visits.enter(address, now)
    assert caught.value.status == 429
    return caught.value


def test_so_many_are_open_at_a_time():
    visits = Visits(2, 100)
    visits.enter("192.0.2.1", 0)
    visits.enter("192.0.2.1", 0)
    assert refused(visits, "192.0.2.1", 0).code == "too_many_sessions"
    visits.enter("192.0.2.2", 0)
    visits.leave("192.0.2.1")
    visits.enter("192.0.2.1", 0)


def test_so_many_begin_in_a_minute_and_then_as_the_time_goes():
    visits = Visits(100, 6)
    for _ in range(6):
        visits.enter("192.0.2.1", 5)
    refusal = refused(visits, "192.0.2.1", 5)
    assert (refusal.code, refusal.retry_after) == ("too_often", 10)
    assert refused(visits, "192.0.2.1", 14.5).retry_after == 1
    visits.enter("192.0.2.1", 15.1)
    refused(visits, "192.0.2.1", 16)


def test_what_was_refused_costs_nothing():
    visits = Visits(1, 2)
    visits.enter("192.0.2.1", 0)
    for _ in range(10):
        assert refused(visits, "192.0.2.1", 0).code == "too_many_sessions"
    visits.leave("192.0.2.1")
    visits.enter("192.0.2.1", 0)


def test_a_household_of_ipv6_is_one():
    visits = Visits(2, 100)
    visits.enter("2001:db8:1:2::1", 0)
    visits.enter("2001:db8:1:2:ffff::9", 0)
    refused(visits, "2001:db8:1:2:aaaa::1", 0)
    visits.enter("2001:db8:1:3::1", 0)
    visits.enter("::1", 0)  # a number that is an IPv4 address, too
    assert len(visits) == 3
    visits.enter("not an address", 0)


def test_who_left_long_ago_is_forgotten():
    visits = Visits(2, 100)
    for number in range(200):
        visits.enter(f"192.0.2.{number}", 0)
        visits.leave(f"192.0.2.{number}")
    visits.enter("198.51.100.1", 0)
    assert len(visits) == 201
    visits.enter("198.51.100.2", 61)
    assert len(visits) == 2  # who is still inside, and who came

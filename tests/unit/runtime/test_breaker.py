"""How often a device may fail, and how long it waits to be tried."""

from __future__ import annotations

from edge_runtime.config import Recovering
from edge_runtime.runtime.breaker import LONGEST, Breaker

SETTINGS = Recovering(failures=3, failure_seconds=10, retry_seconds=60)


def test_so_many_failures_in_so_many_seconds_are_too_often() -> None:
    breaker = Breaker(SETTINGS)
    assert [breaker.failed(at, "s1") for at in (0, 6, 11, 15)] == [False, False, False, True]


def test_a_session_that_fails_alone_is_no_fault_of_the_device() -> None:
    breaker = Breaker(SETTINGS)
    breaker.worked(0.5)
    assert [breaker.failed(at, "s1") for at in (0, 1, 2)] == [False, False, False]
    assert breaker.failed(3, "s1")  # nothing went well from the first of these three on
    breaker.worked(3.5)
    assert [breaker.failed(at, "s1") for at in (3.6, 3.7)] == [False, False]
    breaker.worked(3.8)
    assert breaker.failed(3.9, "s2")


def test_none_is_too_often_where_it_is_put_up_with() -> None:
    breaker = Breaker(Recovering(failures=0))
    assert not any(breaker.failed(0, "s1") for _ in range(100))


def test_pauses_grow_and_begin_anew_once_it_worked_for_long() -> None:
    breaker = Breaker(SETTINGS)
    breaker.left(0)
    assert [breaker.pause() for _ in range(4)] == [60, 120, 240, 480]
    breaker.returned(1000)
    breaker.left(1100)
    assert breaker.pause() == 960
    assert [breaker.pause() for _ in range(3)] == [1920, LONGEST, LONGEST]
    breaker.returned(9000)
    breaker.left(9001 + LONGEST)
    assert breaker.pause() == 60


def test_failures_count_anew_once_they_were_too_many() -> None:
    breaker = Breaker(SETTINGS)
    assert [breaker.failed(0, "s1") for _ in range(6)] == [False, False, True] * 2

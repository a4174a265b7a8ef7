"""Pages of memory: none is lost or held twice, whatever is leased and given back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.decode.pages import Lease, PagePool, State
from edge_runtime.errors import ConfigError


def test_what_is_held_is_in_whole_pages() -> None:
    pool = PagePool(10 * 100 + 99, page=100)
    assert (pool.total, pool.free) == (10, 10)
    one, other = pool.lease("s1", 101), pool.lease("s2", 1, State.COLD)
    assert one is not None
    assert other is not None
    assert (len(one.pages), len(other.pages)) == (2, 1)
    assert (pool.held(State.ACTIVE), pool.held(State.COLD), pool.free) == (2, 1, 7)
    pool.turn(one, State.COLD)
    assert (pool.held(State.ACTIVE), pool.held(State.COLD)) == (0, 3)
    pool.check_integrity(idle=True)
    pool.release(one)
    pool.release(other)
    assert pool.free == 10
    pool.check_integrity(idle=True)


def test_who_gets_no_lease_takes_nothing() -> None:
    pool = PagePool(400, page=100)
    held = pool.lease("s1", 250)
    assert held is not None
    assert pool.lease("s2", 101) is None
    assert (held.size, len(held.pages), pool.free) == (250, 3, 1)
    pool.check_integrity()


def test_a_lease_ends_once() -> None:
    pool = PagePool(400, page=100)
    lease = pool.lease("s1", 100)
    assert lease is not None
    pool.release(lease)
    with pytest.raises(ValueError, match="s1 are released twice"):
        pool.release(lease)
    with pytest.raises(ValueError, match="after their release"):
        pool.turn(lease, State.COLD)
    pool.check_integrity()


def test_wrong_books_are_noticed() -> None:
    pool = PagePool(400, page=100)
    lease = pool.lease("s1", 100)
    assert lease is not None
    with pytest.raises(AssertionError, match="nobody's update"):
        pool.check_integrity(idle=True)
    lease.pages += (3,)  # as somebody who writes into the state of another session
    with pytest.raises(AssertionError, match="5 pages of 4"):
        pool.check_integrity()
    lease.pages = ()
    with pytest.raises(AssertionError, match="3 pages of 4"):
        pool.check_integrity()


def test_no_page_fits() -> None:
    with pytest.raises(ConfigError, match=r"Lower \[computing\] page_kb"):
        PagePool(99, page=100)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 700)), max_size=40))
def test_pages_are_never_lost(steps: list[tuple[int, int]]) -> None:
    pool, held = PagePool(2000, page=100), list[Lease]()
    for what, size in steps:
        if what == 0 or not held:
            lease = pool.lease(f"s{size}", size, State.COLD if size % 2 else State.ACTIVE)
            held += [lease] if lease is not None else []
        elif what == 1:
            pool.release(held.pop(size % len(held)))
        else:
            pool.turn(held[size % len(held)], State.COLD)
        pool.check_integrity()
        assert pool.free + sum(len(lease.pages) for lease in held) == pool.total
    for lease in held:
        pool.release(lease)
    pool.check_integrity(idle=True)
    assert pool.free == pool.total

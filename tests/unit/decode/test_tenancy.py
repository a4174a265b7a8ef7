"""The state of sessions between updates: kept while there is room, the coldest goes first."""

from __future__ import annotations

import pytest

from edge_runtime.decode.pages import PagePool, State, slots
from edge_runtime.decode.tenancy import Tenancy


def tenancy(pages: int) -> Tenancy:
    return Tenancy(PagePool(pages * 100, 100), keeps=True)


def update(made: Tenancy, number: int, session: str, *, over: bool = False) -> int:
    """The page that an update of it works in."""
    lease = made.begin(number, session, 100)
    assert lease is not None
    made.check_integrity([(number, session)])
    made.end(number, session, over=over)
    made.check_integrity([])
    return lease.pages[0]


def test_a_session_goes_on_where_it_was_and_the_coldest_makes_room() -> None:
    made = tenancy(2)
    first, second = update(made, 1, "a"), update(made, 2, "b")
    assert made.pool.held(State.COLD) == 2
    assert update(made, 3, "a") == first
    assert update(made, 4, "c") == second, "b was there longest ago"
    assert update(made, 5, "b") == first
    assert made.dropped == 2
    assert (made.pool.held(State.COLD), made.pool.free, made.room) == (2, 0, 2)


def test_what_is_over_is_free() -> None:
    made = tenancy(2)
    update(made, 1, "a", over=True)
    assert made.pool.free == 2
    update(made, 2, "a")
    made.forget("a")
    made.forget("b")
    assert (made.pool.free, made.dropped) == (2, 0)


def test_who_works_makes_no_room_and_rows_of_a_batch_not_for_each_other() -> None:
    made = tenancy(2)
    mine, other = update(made, 1, "a"), update(made, 2, "b")
    made.spare(["c", "a"])
    assert made.begin(3, "c", 100).pages == (other,)
    assert made.begin(3, "a", 100).pages == (mine,)
    assert made.begin(4, "d", 100) is None
    made.check_integrity([(3, "a"), (3, "c")])
    with pytest.raises(AssertionError, match="hold pages"):
        made.check_integrity([(3, "a")])


def test_without_state_nothing_is_kept() -> None:
    made = Tenancy(PagePool(400, 100), keeps=False)
    lease = made.begin(1, "a", 250)
    assert len(lease.pages) == 3
    made.end(1, "a", over=False)
    assert (made.pool.free, made.room) == (4, 4)


@pytest.mark.parametrize(
    ("size", "count"), [(0, 2), (350, 3), (1 << 20, 10)], ids=["least", "budget", "most"]
)
def test_a_budget_is_for_so_many_states(size: int, count: int) -> None:
    assert slots(100, size, least=2, most=10) == count

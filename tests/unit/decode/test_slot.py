"""A slot goes on with the stream whose state it holds, and begins anew with any other."""

from __future__ import annotations

import pytest

from edge_runtime.decode.slot import Slot
from edge_runtime.decode.update import Purpose, Update


class Noting(Slot):
    """Knows from where it began."""

    def begin(self, base: int) -> None:
        self.base = base


def update(session: str, segment: int = 1, start: int = 0) -> Update:
    return Update(session, segment, Purpose.PARTIAL, start, start + 100)


def test_it_goes_on_with_the_stream_that_it_holds() -> None:
    slot = Noting()
    for start in (7, 9):
        slot.open(update("s1", start=start))
        slot.close(over=False)
    assert slot.base == 7
    slot.open(update("s1", 2, 300))
    slot.close(over=False)
    assert slot.base == 300, "another segment"
    slot.open(update("s2", 2, 500))
    slot.close(over=False)
    assert slot.base == 500, "another session"


def test_nobody_goes_on_with_what_is_over() -> None:
    slot = Noting()
    slot.open(update("s1"))
    slot.close(over=True)
    slot.open(update("s1", start=40))
    assert slot.base == 40


def test_two_at_the_same_state_are_noticed() -> None:
    slot = Noting()
    slot.open(update("s1"))
    with pytest.raises(AssertionError, match="s2 and"):
        slot.open(update("s2"))

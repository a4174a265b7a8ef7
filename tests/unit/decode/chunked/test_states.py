"""Streams are kept as long as somebody goes on with them, and as long as there is memory."""

from __future__ import annotations

import threading

import pytest

from edge_runtime.decode.chunked.states import PASSED, States
from edge_runtime.errors import MemoryCapped


class Slot:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.base = -1

    def begin(self, base: int) -> None:
        self.base = base


def use(states: States[Slot], number: int, base: int = 0) -> Slot:
    slot = states.take(("s", number), base)
    states.release(slot)
    return slot


def test_a_stream_is_found_again_and_its_memory_used_again():
    states = States(Slot)
    first = use(states, 1, 7)
    assert use(states, 1, 9) is first
    assert first.base == 7
    states.drop(("s", 1), states.take(("s", 1), 0))
    assert len(states) == 0
    assert use(states, 2, 5) is first
    assert first.base == 5
    states.check_integrity()


def test_nobody_is_sent_away_while_there_is_memory():
    states = States(Slot)
    slots = [use(states, number) for number in range(200)]
    assert [use(states, number) for number in range(200)] == slots


def test_a_stream_that_was_left_makes_room():
    states = States(Slot)
    left, going = use(states, 1), use(states, 2)
    for _ in range(2 * PASSED + 2):
        assert use(states, 2) is going
    assert use(states, 3) is left
    assert len(states) == 2
    states.check_integrity()


def test_where_memory_is_short_who_waited_longest_makes_room():
    made: list[Slot] = []

    def make() -> Slot:
        if len(made) == 2:
            raise MemoryCapped("no memory", "Close something.")
        made.append(Slot())
        return made[-1]

    states = States(make)
    first, second = use(states, 1), use(states, 2)
    use(states, 1)
    assert use(states, 3) is second
    assert use(states, 1) is first
    states.check_integrity()


def test_without_memory_for_a_single_one_that_is_said():
    def make() -> Slot:
        raise MemoryCapped("no memory", "Close something.")

    with pytest.raises(MemoryCapped):
        use(States(make), 1)


def test_one_that_is_being_worked_on_is_let_be():
    states = States(Slot, most=1)
    busy = states.take(("s", 1), 0)
    assert use(states, 2) is not busy
    states.release(busy)
    assert use(states, 1) is busy
    states.check_integrity()

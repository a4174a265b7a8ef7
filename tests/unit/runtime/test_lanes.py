"""Lanes take as many rows, and as much state of sessions, as there is room for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from edge_runtime.config import Serving
from edge_runtime.decode.tiles import Size
from edge_runtime.errors import MemoryCapped
from edge_runtime.runtime import lanes
from edge_runtime.runtime.tracing import Untraced
from tests.fakes.lanes import SHAPE, FakeDevice, FakeRunner

MB = 1 << 20


class Room:
    """A device with memory for so many rows and states; `tried` is what was asked of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
        self.most = most
        self.tried: list[tuple[int, int]] = []
        monkeypatch.setattr(lanes, "make_runners", self.make)

    def make(self, chain, size: Size, count: int, slots: int) -> list[FakeRunner]:
        self.tried.append((size.rows, slots))
        if count * size.rows + slots > self.most:
            raise MemoryCapped("no memory", "Raise [computing] memory_mb.")
        return [FakeRunner(chain, size) for _ in range(count)]

    def warm(self, *, keeps: bool, state_mb: int = 12, share: float = 1.0) -> list[FakeRunner]:
        """Of four rows on two lanes; a state takes a megabyte."""
        device = FakeDevice("gpu", lanes=2)
        chain = SimpleNamespace(
            shape=SHAPE, device=device, rows=8, keeps=keeps, state=lambda rows, samples: rows * MB
        )
        loaded = SimpleNamespace(
            device=device, chain=chain, size=Size(4, 80_000), warmed=lambda: None
        )
        serving = Serving(max_sessions=10, state_mb=state_mb)
        return lanes.warm_lanes(loaded, serving, Untraced(), share)


@pytest.mark.parametrize(
    ("keeps", "state_mb", "slots"),
    [(True, 12, 12), (True, 1, 8), (True, 99, 18), (False, 12, 0)],
    ids=["budget", "one for each row", "one for each session besides", "nothing is kept"],
)
def test_states_are_as_many_as_the_budget_is_for(monkeypatch, keeps, state_mb, slots) -> None:
    room = Room(monkeypatch, 100)
    assert [runner.size.rows for runner in room.warm(keeps=keeps, state_mb=state_mb)] == [4, 4]
    assert room.tried == [(4, slots)]


def test_where_memory_is_short_there_is_half_of_both(monkeypatch) -> None:
    room = Room(monkeypatch, 5)
    assert [runner.size.rows for runner in room.warm(keeps=True)] == [1, 1]
    assert room.tried == [(4, 12), (2, 6), (1, 3)]


def test_of_one_row_at_least_as_many_states_as_it_takes(monkeypatch) -> None:
    room = Room(monkeypatch, 2)
    with pytest.raises(MemoryCapped):
        room.warm(keeps=True)
    assert room.tried == [(4, 12), (2, 6), (1, 3), (1, 2)]


def test_of_what_keeps_nothing_one_row_is_the_least(monkeypatch) -> None:
    room = Room(monkeypatch, 1)
    with pytest.raises(MemoryCapped):
        room.warm(keeps=False)
    assert room.tried == [(4, 0), (2, 0), (1, 0)]


def test_a_part_of_the_lanes_may_be_all_that_is_lent(monkeypatch) -> None:
    room = Room(monkeypatch, 100)
    assert len(room.warm(keeps=True, share=0.5)) == 1
    assert room.tried == [(4, 12)]

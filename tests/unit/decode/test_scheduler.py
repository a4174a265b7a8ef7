"""Which updates form a batch: by urgency, likeness, cost and memory; the same log, the same way."""

from __future__ import annotations

from collections import deque

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.decode import scheduler as room
from edge_runtime.decode.costs import Cost, Costs
from edge_runtime.decode.journal import (
    Asked,
    Batch,
    Decision,
    Delivered,
    Ending,
    Event,
    Freed,
    Lanes,
    Recall,
    Tick,
    Wait,
    Withdrawn,
)
from edge_runtime.decode.pages import PagePool, State
from edge_runtime.decode.queues import Wanted
from edge_runtime.decode.scheduler import Scheduler
from edge_runtime.decode.update import Purpose

SECOND = 16_000
ROWS = 8
PAGE = 1000
FINAL, SPECULATIVE, PARTIAL = Purpose.FINAL, Purpose.SPECULATIVE, Purpose.PARTIAL


def costs(more: float = 0.2) -> Costs:
    """One row takes 1 ms a second and 2 ms; each other `more` of that."""
    table = [
        Cost(rows, seconds * SECOND, (1 + more * (rows - 1)) * seconds * 1e-3,
             (1 + more * (rows - 1)) * 2e-3, 0.0)
        for rows in range(1, ROWS + 1)
        for seconds in (2, 16)
    ]  # fmt: skip
    return Costs("", tuple(table))


def scheduler(
    table: Costs | None = None, pages: int = 1000, lanes: int = 2, rows: int = ROWS,
    together: int = ROWS * 8 * SECOND, keeps: bool = False,
) -> Scheduler:  # fmt: skip
    """Of which a page holds a second, or the state of a stream where it `keeps` that."""
    made = Scheduler(
        costs() if table is None else table,
        PagePool(pages * PAGE, PAGE),
        lambda samples: PAGE if keeps else PAGE * samples // SECOND,
        lambda count, samples: count * samples <= together,
        keeps=keeps,
    )
    made.tell(Lanes(0.0, lanes, rows, lanes))
    return made


def asks(
    made: Scheduler, name: str, at: float, purpose: Purpose = PARTIAL, seconds: int = 4,
    due: float | None = None, live: bool = True, resumes: bool = False,
) -> None:  # fmt: skip
    due = at if due is None else due
    wanted = Wanted(name, purpose, seconds * SECOND, at, due, live, resumes)
    made.tell(Asked(at, wanted))


def given_to(made: Scheduler, at: float) -> list[tuple[str, ...]]:
    """The batches that begin now."""
    found = []
    while isinstance(decision := made.tell(Tick(at)), Batch):
        found.append(decision.sessions)
        made.check_integrity()
    return found


def ends(made: Scheduler, number: int, at: float) -> None:
    flight = made.stepping.get(number)
    assert flight is not None
    for session in list(flight.updates):
        made.tell(Delivered(at, number, session))
    made.tell(Freed(at, number))
    made.check_integrity()


def test_guesses_go_as_they_came_whoever_was_served_last() -> None:
    made = scheduler(rows=1, lanes=1)
    asks(made, "second", 1.1, SPECULATIVE, due=0.1)
    asks(made, "first", 1.0, SPECULATIVE, due=0.9)
    asks(made, "partial", 0.5, due=0.0)
    assert [each.session for each in made.waiting] == ["first", "second", "partial"]


def test_finals_go_first_then_who_is_due_earliest() -> None:
    made = scheduler(rows=1, lanes=1)
    asks(made, "late", 1.0, due=0.9)
    asks(made, "early", 1.0, due=0.2)
    asks(made, "final", 1.0, FINAL, due=0.9)
    asks(made, "pause", 1.0, SPECULATIVE, due=0.9)
    asks(made, "file", 1.0, FINAL, due=0.0, live=False)
    order = []
    for number in range(1, 6):
        order += given_to(made, 1.0)
        ends(made, number, 1.0)
    assert order == [("final",), ("pause",), ("file",), ("early",), ("late",)]


def test_one_update_of_a_session_waits_the_newest() -> None:
    made = scheduler(lanes=0)
    asks(made, "a", 1.0, seconds=2)
    asks(made, "a", 2.0, seconds=3)
    (waits,) = made.waiting
    assert (waits.samples, waits.since) == (3 * SECOND, 1.0)
    asks(made, "a", 3.0, FINAL)
    asks(made, "a", 4.0, PARTIAL)
    (waits,) = made.waiting
    assert waits.purpose is FINAL
    made.tell(Withdrawn(5.0, "a"))
    assert not len(made.waiting)


def test_a_batch_is_of_like_length() -> None:
    made = scheduler()
    for name, seconds in (("a", 8), ("b", 2), ("c", 5), ("d", 10), ("e", 1), ("f", 16)):
        asks(made, name, 1.0, seconds=seconds, due=ord(name))
    # b is less than half of a, c of f.
    assert given_to(made, 1.0) == [("a", "c", "d"), ("b", "e")]
    assert [each.session for each in made.waiting] == ["f"]


def test_who_would_cost_as_much_alone_runs_alone() -> None:
    made = scheduler(costs(more=1.0), lanes=3)
    for name in "abc":
        asks(made, name, 1.0)
    assert given_to(made, 1.0) == [("a",), ("b",), ("c",)]


def test_batches_are_no_larger_than_the_device_is_quick_with_and_the_board_allows() -> None:
    made = scheduler(costs(more=0.1), lanes=1)
    for number in range(20):
        asks(made, f"s{number:02}", 1.0)
    (first,) = given_to(made, 1.0)
    assert len(first) == ROWS
    ends(made, 1, 1.0)
    made.tell(Lanes(1.0, 1, 3, 1))
    (second,) = given_to(made, 1.0)
    assert len(second) == 3


def test_memory_bounds_a_batch() -> None:
    made = scheduler(together=17 * SECOND, lanes=1)
    for name in "abcdef":
        asks(made, name, 1.0, seconds=8)
    assert given_to(made, 1.0) == [("a", "b")]
    ends(made, 1, 1.0)
    cold = made.pool.lease("state of streams", 985 * PAGE, State.COLD)
    assert cold is not None
    assert given_to(made, 1.0) == [("c",)]
    assert made.pool.free == 1000 - 985 - 8


def test_a_final_takes_the_pages_of_a_partial() -> None:
    """Where too few are free, though a lane is."""
    made = scheduler(pages=10, lanes=2)
    asks(made, "a", 1.0, seconds=8)
    assert given_to(made, 1.0) == [("a",)]
    asks(made, "b", 1.1, FINAL, seconds=8)
    assert made.tell(Tick(1.1)) == Recall(1)
    assert made.tell(Tick(1.1)) is None
    made.tell(Freed(1.2, 1))
    made.check_integrity()
    asks(made, "a", 1.2, seconds=8, due=0.0)
    assert given_to(made, 1.2) == [("b",)]
    assert made.recalls == 1


def test_a_final_that_finds_every_lane_at_partials_takes_the_last_one() -> None:
    made = scheduler(costs(), lanes=2, rows=1)
    asks(made, "x", 0.0)
    given_to(made, 0.0)
    ends(made, 1, 0.1)  # a batch takes longer than a recall is worth
    for at, name in ((1.0, "a"), (1.1, "b")):
        asks(made, name, at)
        given_to(made, at)
    asks(made, "final", 1.2, FINAL)
    assert made.tell(Tick(1.2)) == Recall(3)
    assert made.tell(Tick(1.2)) is None
    made.tell(Freed(1.3, 3))
    asks(made, "b", 1.3)
    assert given_to(made, 1.3) == [("final",)]
    # It was taken from b once: not again before one came through.
    ends(made, 2, 1.4)
    given_to(made, 1.4)
    asks(made, "next", 1.5, FINAL)
    assert made.tell(Tick(1.5)) is None


def test_on_a_quick_device_nothing_is_recalled() -> None:
    made = scheduler(lanes=1, rows=1)
    asks(made, "x", 0.0)
    given_to(made, 0.0)
    ends(made, 1, 0.004)
    asks(made, "a", 1.0)
    given_to(made, 1.0)
    asks(made, "final", 1.001, FINAL)
    assert made.tell(Tick(1.001)) is None


def test_a_batch_waits_only_beside_another_and_as_long_as_others_did() -> None:
    made = scheduler(lanes=2)
    asks(made, "a", 1.0)
    asks(made, "b", 1.0)
    assert given_to(made, 1.0) == [("a", "b")], "an idle device waits for nobody"
    assert made.window == 0.0
    for number in range(20):  # these wait 4 ms for a lane
        made.tell(Lanes(2.0, 0, ROWS, 0))
        asks(made, f"w{number}", 2.0)
        made.tell(Lanes(2.004, 3, ROWS, 2))
        assert given_to(made, 2.004)
        ends(made, 2 + number, 2.005)
    ends(made, 1, 2.9)
    assert made.window == pytest.approx(0.004)
    asks(made, "c", 3.0)
    assert given_to(made, 3.0) == [("c",)], "who is alone waits for nobody"
    for name in "de":
        asks(made, name, 3.001)
    assert made.tell(Tick(3.001)) == Wait(pytest.approx(3.005))
    assert given_to(made, 3.0051) == [("d", "e")]
    for name in "fg":
        asks(made, name, 3.006)
    asks(made, "final", 3.006, FINAL)
    assert given_to(made, 3.006) == [("final", "f", "g")], "a final waits for nobody"


def test_recordings_leave_a_lane() -> None:
    made = scheduler(lanes=2, rows=1)
    made.tell(Lanes(0.0, 2, 1, 1))
    for name in "ab":
        asks(made, name, 1.0, FINAL, live=False)
    assert given_to(made, 1.0) == [("a",)]
    asks(made, "speaker", 1.1)
    assert given_to(made, 1.1) == [("speaker",)]


def slot_of(made: Scheduler, name: str, at: float, purpose: Purpose = PARTIAL) -> int:
    """The slot that an update of it is given now, alone, and is done with."""
    asks(made, name, at, purpose)
    batch = made.tell(Tick(at))
    assert isinstance(batch, Batch)
    assert batch.sessions == (name,)
    ends(made, batch.number, at)
    return batch.slots[0]


def test_a_session_goes_on_in_its_slot_until_another_needs_it() -> None:
    made = scheduler(pages=2, lanes=1, rows=1, keeps=True)
    a, b = slot_of(made, "a", 1.0), slot_of(made, "b", 1.1)
    assert {a, b} == {0, 1}
    assert slot_of(made, "a", 1.2) == a
    assert slot_of(made, "c", 1.3, FINAL) == b, "a final takes the slot that was left longest ago"
    assert slot_of(made, "b", 1.4) == b, "which is free after it"
    assert made.tenancy.dropped == 1
    made.tell(Withdrawn(1.5, "a", over=True))
    assert made.pool.held(State.COLD) == 1
    made.check_integrity()


def test_the_next_update_of_a_session_waits_for_the_one_at_its_state() -> None:
    """A segment ends while a partial of it is decoded; its final goes on with what that leaves."""
    made = scheduler(pages=4, lanes=2, rows=1, keeps=True)
    asks(made, "a", 1.0)
    partial = made.tell(Tick(1.0))
    asks(made, "a", 1.1, FINAL)
    assert made.tell(Tick(1.1)) is None
    asks(made, "b", 1.2)
    assert made.tell(Tick(1.2)).sessions == ("b",), "which holds up nobody"
    ends(made, 1, 1.3)
    final = made.tell(Tick(1.3))
    assert (final.sessions, final.slots) == (("a",), partial.slots)
    asks(made, "a", 1.4, FINAL)  # of the segment after it, in state of its own
    ends(made, 2, 1.4)
    assert made.tell(Tick(1.4)).slots != final.slots
    made.check_integrity()


def test_who_left_while_a_lane_was_at_its_state_leaves_nothing() -> None:
    made = scheduler(pages=2, lanes=2, rows=1, keeps=True)
    asks(made, "a", 1.0)
    made.tell(Tick(1.0))
    made.tell(Withdrawn(1.1, "a", over=True))
    made.check_integrity()
    ends(made, 1, 1.2)
    assert made.pool.free == 2


class World:
    """Sessions and lanes that do at random what a runtime does, and look at every decision."""

    def __init__(self, made: Scheduler) -> None:
        self.made = made
        self.log: list[tuple[Event, Decision]] = []
        self.now = 0.0
        self.finals: dict[str, int] = {}
        self.flying: dict[int, list[str]] = {}
        self.waiting: dict[str, Wanted] = {}
        self.slots: dict[int, tuple[int, ...]] = {}

    def tell(self, event: Event) -> Decision:
        decision = self.made.tell(event)
        self.log.append((event, decision))
        self.made.check_integrity()
        return decision

    def ask(self, session: str, purpose: Purpose, seconds: int) -> None:
        before = self.waiting.get(session)
        if before is not None and before.purpose is FINAL:
            return
        since = before.since if before else self.now
        wanted = Wanted(session, purpose, seconds * SECOND, since, since)
        self.waiting[session] = wanted
        self.tell(Asked(self.now, wanted))

    def settle(self) -> None:
        while True:
            decision = self.tell(Tick(self.now))
            if isinstance(decision, Wait):
                assert self.now < decision.until <= self.now + room.WINDOW
                assert len(self.waiting) > 1
                assert self.flying
                assert not any(each.purpose is FINAL for each in self.ready)
                return
            if isinstance(decision, Batch):
                self.begin(decision)
            elif isinstance(decision, Recall):
                assert any(each.purpose is FINAL for each in self.waiting.values())
            else:
                return

    @property
    def ready(self) -> list[Wanted]:
        """What waits for a lane alone, not for another update of its session."""
        keeps = self.made.tenancy.keeps
        at_work = {name for each in self.flying.values() for name in each if keeps}
        return [each for name, each in self.waiting.items() if name not in at_work]

    def begin(self, batch: Batch) -> None:
        assert len(set(batch.sessions)) == len(batch.sessions) <= ROWS
        rows = [self.waiting.pop(session) for session in batch.sessions]
        used = [slot for slots in self.slots.values() for slot in slots]
        assert len({*used, *batch.slots}) == len(used) + len(batch.slots), "never two owners"
        self.slots[batch.number] = batch.slots
        left = [each.rank for each in self.ready]
        assert not left or rows[0].rank <= min(left), "the most urgent is in it"
        longest = max(each.samples for each in rows)
        shortest = min(each.samples for each in rows)
        assert longest <= room.SHORT or shortest >= room.ALIKE * longest
        for each in rows:
            self.finals[each.session] = self.finals.get(each.session, 0) + (each.purpose is FINAL)
        self.flying[batch.number] = list(batch.sessions)

    def end(self, number: int) -> None:
        del self.slots[number]
        for session in self.flying.pop(number):
            self.tell(Delivered(self.now, number, session))
        self.tell(Freed(self.now, number))


STEP = st.tuples(
    st.sampled_from(["ask", "ask", "ask", "end", "wait"]), st.integers(0, 7), st.integers(1, 16),
    st.sampled_from(list(Purpose)),
)  # fmt: skip


@settings(max_examples=70, deadline=None)
@given(st.lists(STEP, max_size=60), st.booleans())
def test_no_final_is_lost_nobody_starves_and_a_log_replays(steps: list[tuple], keeps: bool) -> None:
    def made() -> Scheduler:
        return scheduler(pages=5 if keeps else 60, lanes=2, keeps=keeps)

    world = World(made())
    wanted = 0
    for what, who, seconds, purpose in steps:
        world.now += 0.001
        if what == "ask":
            before = world.waiting.get(f"s{who}")
            wanted += purpose is FINAL and not (before and before.purpose is FINAL)
            world.ask(f"s{who}", purpose, seconds)
        elif what == "end" and world.flying:
            world.end(min(world.flying))
        elif what == "wait":
            world.now += room.WINDOW
        world.settle()
    for _ in range(40):  # lanes come free, and time passes
        for number in list(world.flying):
            world.end(number)
        world.now += room.WINDOW
        world.settle()
    assert not world.waiting, "everybody had a turn"
    assert not len(world.made.waiting)
    assert sum(world.finals.values()) == wanted
    world.made.pool.check_integrity(idle=True)
    again = made()
    encoded = msgspec.json.encode([event for event, _ in world.log])
    events = msgspec.json.decode(encoded, type=list[Event])
    assert [again.tell(event) for event in events] == [decision for _, decision in world.log]


def test_everybody_of_one_purpose_has_a_turn_among_many() -> None:
    made = scheduler(lanes=1, rows=2)
    at, turns, order = 1.0, dict.fromkeys((f"s{n}" for n in range(9)), 0), deque[str]()
    for name in turns:
        asks(made, name, at)
    for number in range(1, 46):
        at += 0.01
        (sessions,) = given_to(made, at)
        order += sessions
        ends(made, number, at)
        for name in sessions:
            turns[name] += 1
            asks(made, name, at)  # wants more at once
    assert set(turns.values()) == {10}, "nobody twice before all others once"


@pytest.mark.parametrize(("waiting", "batch"), [(3, 3), (4, 4), (5, 4), (7, 7), (8, 8), (30, 8)])
def test_a_batch_is_as_large_as_pays_where_shapes_are_rounded_up(waiting: int, batch: int) -> None:
    """Five rows cost what eight do: a fifth alone is left for the next batch, seven are not."""
    taken = {1: 1.0, 2: 1.2, 4: 1.85, 8: 2.95}
    table = [Cost(rows, 12 * SECOND, 1e-3 * ms, 0.0, 0.0) for rows, ms in taken.items()]
    made = scheduler(Costs("", tuple(table)), lanes=1, together=96 * SECOND)
    for number in range(waiting):
        asks(made, f"s{number}", 0.0, seconds=12)
    (first,) = given_to(made, 0.0)
    assert len(first) == batch


def test_a_lane_that_comes_to_its_end_is_given_the_next_batch() -> None:
    made = scheduler(lanes=1)
    asks(made, "one", 0.0)
    assert given_to(made, 0.0) == [("one",)]
    asks(made, "two", 0.1)
    assert given_to(made, 0.1) == []
    made.tell(Ending(0.2, 1))
    asks(made, "three", 0.2)
    assert given_to(made, 0.2) == [("two", "three")]
    asks(made, "four", 0.3)
    assert given_to(made, 0.3) == [], "one batch may wait for the lane, not two"
    made.tell(Delivered(0.4, 1, "one"))
    made.tell(Freed(0.4, 1))
    assert given_to(made, 0.4) == [], "the lane is at the second by now"
    made.tell(Ending(0.5, 2))
    made.tell(Freed(0.5, 2))
    assert given_to(made, 0.5) == [("four",)]


def test_a_final_takes_the_place_of_partials_that_wait_for_a_lane() -> None:
    """Not of those that come to their end anyway."""
    made = scheduler(lanes=1)
    asks(made, "one", 0.0)
    given_to(made, 0.0)
    made.tell(Ending(0.1, 1))
    asks(made, "two", 0.1)
    assert given_to(made, 0.1) == [("two",)]
    made._took = 1.0
    asks(made, "end", 0.2, FINAL)
    assert made.tell(Tick(0.2)) == Recall(2)
    assert made.tell(Tick(0.2)) is None


def test_memory_of_a_batch_that_comes_to_its_end_is_its_own_until_then() -> None:
    made = scheduler(pages=6, lanes=1)
    asks(made, "one", 0.0, seconds=4)
    given_to(made, 0.0)
    made.tell(Ending(0.1, 1))
    asks(made, "two", 0.1, seconds=4)
    assert given_to(made, 0.1) == []
    made.tell(Delivered(0.2, 1, "one"))
    made.tell(Freed(0.2, 1))
    assert given_to(made, 0.2) == [("two",)]


def crowded(resumes: bool = True, rows: int = 4, ending: bool = True) -> Scheduler:
    """One lane at a batch that comes to its end, of which two rows are left; some more wait."""
    made = scheduler(lanes=1, rows=rows)
    for n in range(rows):
        asks(made, f"old{n}", 0.0, resumes=resumes)
    assert len(given_to(made, 0.0)[0]) == rows
    for n in range(2, rows):
        made.tell(Delivered(0.1, 1, f"old{n}"))
    if ending:
        made.tell(Ending(0.1, 1))
    return made


def test_the_last_rows_of_a_batch_make_way_for_as_many_that_wait() -> None:
    made = crowded()
    asks(made, "one", 0.1)
    asks(made, "two", 0.1)
    assert made.tell(Tick(0.2)) == Batch(2, ("one", "two"), cut=1)
    for name in ("old0", "old1"):
        made.tell(Delivered(0.3, 1, name))
        asks(made, name, 0.3, due=0.0, resumes=True)
    made.tell(Freed(0.3, 1))
    made.tell(Ending(0.4, 2))
    asks(made, "three", 0.4)
    assert made.tell(Tick(0.4)) == Batch(3, ("old0", "old1", "three")), "two were no crowd"


@pytest.mark.parametrize("reason", ["few wait", "small batch", "it would lose all", "recording"])
def test_a_batch_is_not_cut(reason: str) -> None:
    if reason == "recording":
        made = scheduler(lanes=1)
        made.tell(Lanes(0.0, 1, ROWS, 1))
        for n in range(4):
            asks(made, f"old{n}", 0.0, live=False, resumes=True)
        assert len(given_to(made, 0.0)[0]) == 4
        made.tell(Ending(0.1, 1))
    else:
        rows = 2 if reason == "small batch" else 4
        made = crowded(resumes=reason != "it would lose all", rows=rows)
    asks(made, "one", 0.1)
    if reason != "few wait":
        for n in range(3):
            asks(made, f"two{n}", 0.1)
    decision = made.tell(Tick(0.2))
    assert isinstance(decision, Batch)
    assert decision.cut == 0


def test_a_cut_batch_is_no_lane_that_a_final_may_count_on() -> None:
    made = crowded()
    asks(made, "one", 0.1)
    asks(made, "two", 0.1)
    assert isinstance(made.tell(Tick(0.2)), Batch)
    made._took = 1.0
    asks(made, "end", 0.3, FINAL)
    assert made.tell(Tick(0.3)) == Recall(2)


def test_a_batch_is_not_cut_where_another_lane_is_idle() -> None:
    made = crowded()
    made.tell(Lanes(0.1, 2, 4, 2))
    asks(made, "one", 0.1)
    asks(made, "two", 0.1)
    assert made.tell(Tick(0.2)) == Batch(2, ("one", "two"))

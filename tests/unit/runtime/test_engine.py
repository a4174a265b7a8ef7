"""Lanes take updates in turn, hand back what came of them, and outlive what fails."""

from __future__ import annotations

import logging
import queue
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from edge_runtime.decode.round import Round
from edge_runtime.decode.update import Cost, Hypothesis, Purpose, Update
from edge_runtime.errors import DeviceError
from edge_runtime.runtime.engine import Batch, Engine, Proof, Rest, Task


class Lane:
    """A runner that sums its audio, waits when told to, and fails when that is wanted."""

    chain = SimpleNamespace(shape=SimpleNamespace(shortest=700))

    def __init__(self) -> None:
        self.stirred: list[int] = []
        self.tired = False
        self.open = threading.Event()
        self.open.set()

    def run(self, updates, audio):
        (found,) = self.rounds(updates, audio)
        return list(found.done.values())

    def rounds(self, updates, audio, recalled=lambda: False):
        assert self.open.wait(5)
        (update,), (pieces,) = updates, audio
        if update.session == "keep-warm":
            self.stirred.append(sum(map(len, pieces)))
            if self.tired:
                raise DeviceError("asleep", "Wake it.")
        if update.segment < 0:
            raise DeviceError("out of memory", "Close something.")
        total = int(sum(piece.sum() for piece in pieces))
        cost = Cost(encode=0.5)
        yield Round({0: Hypothesis(update, (total,), (0.0,), (1.0,), (0,), True, 1, cost=cost)})


@pytest.fixture
def results():
    return queue.SimpleQueue()


@pytest.fixture
def engine(results):
    made: list[Engine] = []

    def started(*lanes: Lane, rest: Rest | None = None) -> Engine:
        made.append(Engine(lanes, told(results), rest))
        made[-1].start()
        return made[-1]

    yield started
    for each in made:
        each.stop()


def told(results):
    def deliver(delivery):
        for result in delivery.results:
            results.put(result)

    return deliver


def task(segment: int, owner: object = None) -> Task:
    update = Update("s", segment, Purpose.FINAL, 0, 4)
    pieces = [np.full(2, segment, np.float32), np.full(2, 1, np.float32)]
    return Task(owner, update, pieces, wanted=0.0)


def test_results_come_back_with_their_owner_and_the_time_they_waited(engine, results) -> None:
    owner = object()
    engine(Lane()).submit(Batch(task(5, owner)))
    done, hypothesis = results.get(timeout=5)
    assert done.owner is owner
    assert hypothesis.tokens == (12,)
    assert hypothesis.cost.queue > 0.0
    assert hypothesis.cost.encode == 0.5


def test_a_lane_that_is_busy_does_not_hold_up_the_others(engine, results) -> None:
    slow, fast = Lane(), Lane()
    slow.open.clear()
    running = engine(slow, fast)
    assert running.lanes == 2
    for segment in range(6):
        running.submit(Batch(task(segment)))
    done = [results.get(timeout=5)[0].update.segment for _ in range(5)]
    slow.open.set()
    done.append(results.get(timeout=5)[0].update.segment)
    assert sorted(done) == list(range(6))


def test_an_update_that_fails_is_told_and_the_lane_goes_on(engine, results, caplog) -> None:
    running = engine(Lane())
    with caplog.at_level(logging.ERROR):
        running.submit(Batch(task(-1)))
        running.submit(Batch(task(3)))
        _, error = results.get(timeout=5)
        _, hypothesis = results.get(timeout=5)
    assert isinstance(error, DeviceError)
    assert hypothesis.tokens == (8,)
    assert "out of memory" in caplog.text


def test_stopping_finishes_what_runs(results) -> None:
    lane = Lane()
    lane.open.clear()
    running = Engine([lane], told(results))
    running.start()
    running.submit(Batch(task(1)))
    threading.Timer(0.05, lane.open.set).start()
    running.stop()
    assert results.get(timeout=1)[1].tokens == (4,)


def until(condition) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came true")


def test_an_idle_lane_decodes_the_least_silence_there_is(engine, results) -> None:
    lane = Lane()
    running = engine(lane, rest=Rest(0.01, lambda: True))
    until(lambda: len(lane.stirred) >= 3)
    assert set(lane.stirred) == {700}
    running.submit(Batch(task(5)))
    assert results.get(timeout=5)[1].tokens == (12,)
    assert results.empty()  # what keeps it warm is nobody's result


def test_a_lane_rests_while_nobody_may_speak(engine) -> None:
    lane, open_sessions = Lane(), []
    engine(lane, rest=Rest(0.01, lambda: bool(open_sessions)))
    time.sleep(0.1)
    assert lane.stirred == []
    open_sessions.append("s1")
    until(lambda: lane.stirred)


def test_a_lane_that_works_is_not_stirred(engine, results) -> None:
    lane = Lane()
    running = engine(lane, rest=Rest(0.5, lambda: True))
    for segment in range(20):
        running.submit(Batch(task(segment)))
        results.get(timeout=5)
        time.sleep(0.01)
    assert lane.stirred == []


def test_a_lane_that_cannot_be_kept_warm_still_works(engine, results, caplog) -> None:
    lane = Lane()
    lane.tired = True
    running = engine(lane, rest=Rest(0.01, lambda: True))
    until(lambda: lane.stirred)
    time.sleep(0.1)
    assert len(lane.stirred) == 1
    running.submit(Batch(task(5)))
    assert results.get(timeout=5)[1].tokens == (12,)
    assert "kept warm no more" in caplog.text


class Async(Lane):
    """A lane whose device is at work while the host goes on: batches end as `open` lets them."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[int] = []

    def rounds(self, updates, audio, recalled=lambda: False):
        self.begun.append(updates[0].segment)
        yield Round(ending=True)
        yield from super().rounds(updates, audio, recalled)


def deliveries(lane: Lane):
    """An engine of that lane, and what it delivers."""
    came: queue.SimpleQueue = queue.SimpleQueue()
    running = Engine([lane], came.put)
    running.start()
    return running, came


def test_a_lane_that_comes_to_its_end_asks_for_the_next_and_begins_it_first() -> None:
    lane = Async()
    lane.open.clear()
    running, came = deliveries(lane)
    one, two = Batch(task(1)), Batch(task(2))
    running.submit(one)
    soon = came.get(timeout=5)
    assert (soon.batch, soon.ending, soon.free, soon.results) == (one, True, False, [])
    running.submit(two)
    begun_when_told = []
    lane.open.set()
    for _ in range(3):
        told = came.get(timeout=5)
        begun_when_told.append((told.batch is two, told.free, bool(told.results)))
        if told.free and told.batch is one:
            assert lane.begun == [1, 2], "what came of the first was told before the second began"
    running.stop()
    assert begun_when_told == [(False, True, True), (True, False, False), (True, True, True)]


def test_what_came_of_the_last_batch_is_told_at_once_where_no_other_waits() -> None:
    lane = Async()
    running, came = deliveries(lane)
    running.submit(Batch(task(1)))
    assert came.get(timeout=5).ending
    assert came.get(timeout=5).free
    running.stop()


@pytest.mark.parametrize("then", ["fails", "ends", "proves"])
def test_what_came_of_a_batch_is_told_whatever_comes_next(then: str) -> None:
    lane = Async()
    lane.open.clear()
    running, came = deliveries(lane)
    running.submit(Batch(task(1)))
    assert came.get(timeout=5).ending
    if then == "fails":
        lane.rounds = None  # the next one raises before it begins
        running.submit(Batch(task(2)))
    elif then == "proves":
        running._tasks.put(Proof(running.through))
    else:
        running.dismiss()
    lane.open.set()
    told = came.get(timeout=5)
    assert told.free
    ((done, hypothesis),) = told.results
    assert (done.update.segment, hypothesis.tokens) == (1, (4,))
    running.stop()

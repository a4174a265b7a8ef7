"""Updates of several sessions go to a lane together, and one that is recalled is due again."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from edge_runtime.audio import FRAME
from edge_runtime.config import Computing, Config
from edge_runtime.decode.costs import Costs
from edge_runtime.decode.journal import Batch, Event, Recall
from edge_runtime.decode.pages import PagePool
from edge_runtime.decode.scheduler import Scheduler
from edge_runtime.decode.update import Purpose
from edge_runtime.events import Final, Partial
from edge_runtime.runtime import Options
from tests.waiting import until

QUIET = Options(partials=False, speculate=False)
SPEECH = np.full(40 * FRAME, 1.0, np.float32)
SILENCE = np.zeros(30 * FRAME, np.float32)
TURN = np.append(SPEECH, SILENCE)


async def ended(stream) -> list:
    stream.stop()
    return [event async for event in stream]


async def wait_for_a_lane(runtime, device, streams) -> None:
    """The first holds the only lane; the turns of the others wait for it."""
    first, *others = streams
    device.held = {first.session.name}
    await first.feed(TURN)
    await until(lambda: first.served_at > 0)
    for stream in others:
        await stream.feed(TURN)
    waiting = runtime._turns.scheduler.waiting
    await until(lambda: len(waiting) == len(others))


async def test_what_waited_goes_to_a_lane_together(make, devices) -> None:
    device = devices["cpu"]
    device.rows = 8
    runtime = make("cpu")
    async with runtime.serving():
        streams = [runtime.open(QUIET) for _ in range(6)]
        await wait_for_a_lane(runtime, device, streams)
        device.free.set()
        for stream in streams:
            assert sum(isinstance(event, Final) for event in await ended(stream)) == 1
    assert [sorted(batch) for batch in device.batches] == [["s1"], ["s2", "s3", "s4", "s5", "s6"]]
    assert runtime.metrics.value("edge_runtime_batch_rows_sum") == 6
    assert runtime.metrics.value("edge_runtime_batch_rows_count") == 2
    assert runtime.metrics.value("edge_runtime_updates_total", purpose="final") == 6


async def test_no_more_go_together_than_is_configured_and_a_hot_board_allows(
    make, devices, monkeypatch
) -> None:
    device = devices["cpu"]
    device.rows = 8
    runtime = make("cpu", Config(computing=Computing(batch=4)))
    monkeypatch.setattr(runtime._governor, "limits", replace(runtime._governor.limits, lanes=0.5))
    async with runtime.serving():
        streams = [runtime.open(QUIET) for _ in range(6)]
        await wait_for_a_lane(runtime, device, streams)
        device.free.set()
        for stream in streams:
            assert sum(isinstance(event, Final) for event in await ended(stream)) == 1
    assert [len(batch) for batch in device.batches] == [1, 2, 2, 1]


async def test_a_partial_gives_its_lane_to_a_final_and_comes_again(make, devices) -> None:
    device = devices["cpu"]
    runtime = make("cpu")
    async with runtime.serving():
        scheduler = runtime._turns.scheduler
        scheduler._took = 1.0  # a slow device: it is worth it
        shows, says = runtime.open(), runtime.open(QUIET)
        device.held = {"s1"}
        await shows.feed(SPEECH)
        await until(lambda: bool(runtime.flying))
        await says.feed(TURN)
        await until(lambda: "s2" in device.ran)
        assert device.ran == ["s2"]
        device.free.set()
        await until(lambda: "s1" in device.ran)
        await shows.feed(SILENCE)
        events = await ended(shows)
        assert any(isinstance(event, Partial) for event in events)
        assert any(isinstance(event, Final) for event in events)
        await ended(says)
    assert runtime.metrics.value("edge_runtime_recalled_total") == 1


async def test_what_was_decided_is_decided_again_from_the_log(make, devices) -> None:
    device = devices["cpu"]
    device.rows = 4
    runtime = make("cpu")
    log: list[tuple[Event, object]] = []
    async with runtime.serving():
        scheduler = runtime._turns.scheduler
        assert not len(scheduler.waiting)
        runtime._turns.journal = lambda event, decision: log.append((event, decision))
        streams = [runtime.open() for _ in range(6)]
        # Their finals alone are six full batches, however fast or slow the rest goes.
        for piece in np.split(np.tile(TURN, 4), 40):
            for stream in streams:
                await stream.feed(piece)
        for stream in streams:
            await ended(stream)
    assert sum(isinstance(decision, Batch) for _, decision in log) >= 6
    assert not any(isinstance(decision, Recall) for _, decision in log)
    again = Scheduler(
        Costs(),
        PagePool(scheduler.pool.size, scheduler.pool.page),
        scheduler._memory,
        scheduler._fits,
    )
    text = msgspec.json.encode([event for event, _ in log])
    events = msgspec.json.decode(text, type=list[Event])
    assert [again.tell(event) for event in events] == [decision for _, decision in log]


async def test_what_is_not_wanted_any_more_makes_room_for_what_is(make, devices) -> None:
    """A final of which an overrun took all audio is no reason to keep a session waiting."""
    device = devices["cpu"]
    runtime = make("cpu")
    async with runtime.serving():
        held, other = runtime.open(QUIET), runtime.open()
        device.held = {"s1"}
        await held.feed(TURN)
        await until(lambda: held.served_at > 0)
        await other.feed(TURN)
        waiting = runtime._turns.scheduler.waiting
        await until(lambda: [each.purpose for each in waiting] == [Purpose.FINAL])
        other.offer(np.zeros(other.session.room + len(TURN), np.float32))
        await until(lambda: not len(waiting))
        device.free.set()
        for stream in (held, other):
            await ended(stream)

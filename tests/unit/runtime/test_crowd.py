"""More speakers than lanes keep up with: everybody is told, partials go, finals stay."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from edge_runtime.audio import FRAME
from edge_runtime.config import Config, Serving
from edge_runtime.errors import ServerFull
from edge_runtime.events import Final, Partial
from edge_runtime.events import Warning as WarningEvent
from edge_runtime.runtime import Options, crowd, hearing
from edge_runtime.runtime.ladder import STEPS
from tests.waiting import until

NONE = next(level for level, step in enumerate(STEPS) if math.isinf(step.hop))
SPOKEN = np.full(40 * FRAME, 1.0, np.float32)
SPEAKS = Options(speculate=False)  # what is decoded early in a pause is shown, too
SILENCE = np.zeros(30 * FRAME, np.float32)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that crowds see, settable."""
    now = [1000.0]
    # Of that module alone: asyncio's clock goes on.
    monkeypatch.setattr(crowd, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


async def said(stream) -> list:
    stream.stop()
    return [event async for event in stream]


async def test_at_each_step_everybody_is_told_and_finals_come(make, clock) -> None:
    runtime = make("cpu")
    async with runtime.serving():
        stream, idle = runtime.open(SPEAKS), runtime.open(SPEAKS)
        ladder = runtime._crowd._ladder
        ladder.spent(clock[0], 1.0, partial=True)  # at most one a second and a factor
        ladder.spent(clock[0], 1000.0, partial=False)
        for _ in STEPS:
            clock[0] += 2
            runtime._settle((), 0.0)
        assert ladder.level == len(STEPS) - 1
        assert runtime.about["load"]["level"] == ladder.level
        assert stream.session._segments.pace == math.inf
        with pytest.raises(ServerFull, match="busy with 0 speakers") as full:
            runtime.open()
        assert full.value.retry_after > 0
        runtime.open(Options(live=False)).stop()  # recordings wait their turn anyway
        await stream.feed(np.append(SPOKEN, SILENCE))
        events = await said(stream)
        assert not [event for event in events if isinstance(event, Partial)]
        assert [event for event in events if isinstance(event, Final)]
        told = [STEPS[level].said for level in range(1, len(STEPS))]
        for each in (events, await said(idle)):
            warnings = [event for event in each if isinstance(event, WarningEvent)]
            assert [event.code for event in warnings] == ["busy"] * len(told)
            assert [event.message for event in warnings] == told


async def test_partials_come_back_in_the_same_segment(make, clock) -> None:
    runtime = make("cpu")
    async with runtime.serving():
        stream = runtime.open(SPEAKS)
        ladder = runtime._crowd._ladder
        ladder.spent(clock[0], 0.001, partial=True)
        ladder.level = NONE
        clock[0] += 1
        runtime._settle((), 0.0)
        await stream.feed(SPOKEN)
        clock[0] += 1
        runtime._settle((), 0.0)
        assert not [event for event in stream._events if isinstance(event, Partial)]
        for _ in range(2 * NONE):  # from no partials to all of them
            clock[0] += 20
            runtime._settle((), 0.0)
        assert ladder.level < NONE
        clock[0] += 20
        await stream.feed(SPOKEN)
        await stream.feed(SILENCE)
        events = await said(stream)
        assert [event for event in events if isinstance(event, Partial)]


async def test_all_is_as_usual_once_the_crowd_is_gone(make, clock, monkeypatch) -> None:
    """Nobody feeds anything then, or even asks to come in."""
    monkeypatch.setattr(hearing, "LOOK", 0.01)
    runtime = make("cpu")
    async with runtime.serving():
        ladder = runtime._crowd._ladder
        ladder.spent(clock[0], 1000.0, partial=False)
        ladder.level = len(STEPS) - 1
        with pytest.raises(ServerFull):
            runtime.open()

        def later() -> bool:
            clock[0] += 1
            return ladder.level == 0

        await until(later)
        assert 1000 < clock[0] < 1300
        assert "edge_runtime_load_level 0.0" in runtime.metrics.text().decode()
        runtime.open().stop()


async def test_a_file_that_is_sent_at_once_is_no_crowd(make, clock) -> None:
    runtime = make("cpu", Config(serving=Serving(max_sessions=2)))
    async with runtime.serving():
        stream = runtime.open()
        await stream.feed(np.tile(np.append(SPOKEN, SILENCE), 10))
        await said(stream)
        assert runtime.about["load"]["level"] == 0
        runtime.open().stop()


async def test_what_is_in_force_is_in_the_figures(make, clock) -> None:
    runtime = make("cpu")
    async with runtime.serving():
        runtime.open()
        runtime._crowd._ladder.spent(clock[0], 1000.0, partial=False)
        clock[0] += 1
        runtime._settle((), 0.0)
        figures = runtime.metrics.text().decode()
        assert "edge_runtime_load_level 1.0" in figures
        assert 'edge_runtime_load_changes_total{direction="harder"} 1.0' in figures
        asked = next(line for line in figures.splitlines() if line.startswith("edge_runtime_lanes"))
        assert float(asked.split()[1]) == pytest.approx(1000 / 20 * math.exp(-1 / 20), rel=0.01)

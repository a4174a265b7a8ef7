"""Lanes that come through, idle or at work, and such that do not."""

from __future__ import annotations

import asyncio
import queue
import time
from types import SimpleNamespace

import numpy as np
import pytest

from edge_runtime.decode.update import Purpose, Update
from edge_runtime.runtime import Runtime
from edge_runtime.runtime.engine import Batch, Engine, Task
from tests.fakes.lanes import SHAPE, FakeDevice, FakeRunner, lost
from tests.waiting import until


def lane(device: FakeDevice) -> FakeRunner:
    return FakeRunner(SimpleNamespace(shape=SHAPE, device=device), None)


@pytest.fixture
def engine():
    """`engine(device, …)`: one lane on each."""
    made: list[tuple[Engine, tuple[FakeDevice, ...]]] = []

    def started(*devices: FakeDevice) -> Engine:
        results = queue.SimpleQueue()
        running = Engine([lane(each) for each in devices], results.put)
        running.results = results
        running.start()
        made.append((running, devices))
        return running

    yield started
    for running, devices in made:
        for device in devices:
            device.free.set()
        running.stop()


def proven(engine: Engine, since, seconds: float = 2.0) -> bool:
    ends = time.monotonic() + seconds
    while not (found := engine.proven(since)) and time.monotonic() < ends:
        time.sleep(0.005)
    return found


def task(session: str) -> Task:
    return Task(None, Update(session, 0, Purpose.FINAL, 0, 4), [np.ones(4, np.float32)], 0.0)


def test_idle_lanes_prove_themselves_each_by_a_little_silence(engine) -> None:
    devices = [FakeDevice(name) for name in "abc"]
    running = engine(*devices)
    for _ in range(3):
        before = running.through
        assert proven(running, before)
    assert all(set(device.ran) == {"keep-warm"} for device in devices)
    assert [len(device.ran) for device in devices] == [3, 3, 3]
    assert running.results.empty()


def test_work_is_proof_enough(engine) -> None:
    device = FakeDevice("a")
    running = engine(device)
    before = running.through
    running.submit(Batch(task("s1")))
    running.results.get(timeout=2)
    assert proven(running, before)
    assert device.ran == ["s1"]


def test_one_lane_that_is_stuck_is_not_proven_by_the_other(engine) -> None:
    stuck, well = FakeDevice("stuck"), FakeDevice("well")
    stuck.held = {"keep-warm"}
    running = engine(stuck, well)
    before = running.through
    assert not proven(running, before, 0.2)
    assert len(well.ran) == 1  # it is not asked again and again
    running.submit(Batch(task("s1")))
    ((done, _),) = running.results.get(timeout=2).results
    assert done.update.session == "s1"
    stuck.free.set()
    assert proven(running, before)


def test_an_update_that_fails_comes_through(engine) -> None:
    device = FakeDevice("a")
    running = engine(device)
    device.breaks["run"] = lost()
    before = running.through
    running.submit(Batch(task("s1")))
    running.results.get(timeout=2)
    assert proven(running, before)


async def test_a_runtime_proves_itself(make) -> None:
    async with make("cpu").serving() as runtime:
        await asyncio.wait_for(runtime.prove(), 2)
        await asyncio.wait_for(runtime.prove(), 2)


async def test_a_stuck_lane_and_a_stuck_detector_prove_nothing(make, devices, ears) -> None:
    device = devices["cpu"]
    async with make("cpu").serving() as runtime:
        device.held = {"keep-warm"}
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(runtime.prove(), 0.2)
        device.free.set()
        await asyncio.wait_for(runtime.prove(), 2)
        (worker,) = runtime._hearing._workers.values()
        worker.submit(time.sleep, 0.3)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(runtime.prove(), 0.1)
        await asyncio.wait_for(runtime.prove(), 2)


async def test_a_gpu_that_is_lost_while_nobody_speaks_is_left_at_once(make, devices) -> None:
    runtime: Runtime = make()
    async with runtime.serving():
        devices["tensorrt"].breaks["run"] = lost()
        await asyncio.wait_for(runtime.prove(), 2)
        for _ in range(200):
            if runtime.device is devices["cpu"]:
                break
            await asyncio.sleep(0.01)
        assert runtime.device is devices["cpu"]
        await asyncio.wait_for(runtime.prove(), 2)


async def test_a_runtime_without_a_device_proves_nothing(make, devices) -> None:
    async with make("cpu").serving() as runtime:
        devices["cpu"].breaks["run"] = lost("cpu")
        asking = asyncio.create_task(runtime.prove())  # which finds it lost
        await until(lambda: runtime.lost is not None)
        asking.cancel()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(runtime.prove(), 0.1)

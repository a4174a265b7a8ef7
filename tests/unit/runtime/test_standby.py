"""A device that keeps failing gives way to the next one, and is gone back to once it works."""

from __future__ import annotations

import asyncio
import itertools
import logging
from types import SimpleNamespace

import numpy as np
import pytest

from edge_runtime.audio import FRAME
from edge_runtime.config import Config, Recovering
from edge_runtime.decode.proof import steady
from edge_runtime.decode.tiles import Size
from edge_runtime.errors import DeviceError
from edge_runtime.events import Final
from edge_runtime.events import Warning as WarningEvent
from edge_runtime.metrics import Metrics
from edge_runtime.runtime import Options, Runtime
from edge_runtime.runtime.breaker import Breaker
from edge_runtime.runtime.standby import Standby
from tests.fakes.lanes import SHAPE, FakeDevice, FakeRunner, lost
from tests.waiting import until

Devices = dict[str, FakeDevice]
TURN = np.append(np.ones(40 * FRAME, np.float32), np.zeros(30 * FRAME, np.float32))
ONCE = Config(recovering=Recovering(failures=2))
"""Two that fail are too many: a final is tried twice."""


@pytest.fixture(autouse=True)
def soon(monkeypatch) -> dict[str, float]:
    """How long pauses are; settable."""
    seconds = {"pause": 0.02}
    monkeypatch.setattr(Breaker, "pause", lambda self: seconds["pause"])
    return seconds


def broken() -> DeviceError:
    return DeviceError("an illegal instruction", "Update the driver.")


async def said_on(runtime: Runtime) -> tuple[list[str], list[str]]:
    """Finals and warnings of a turn."""
    stream = runtime.open(Options(partials=False, speculate=False))
    await stream.feed(TURN)
    stream.stop()
    events = [event async for event in stream]
    return (
        [event.text for event in events if isinstance(event, Final)],
        [event.code for event in events if isinstance(event, WarningEvent)],
    )


async def moved(runtime: Runtime, name: str) -> None:
    await until(lambda: runtime.device.name == name and runtime._decoder.idle > 0)


async def test_sessions_move_on_and_back(make, devices: Devices, soon, caplog) -> None:
    soon["pause"] = 0.1
    runtime, gpu = make("auto", ONCE), devices["tensorrt"]
    value = runtime.metrics.value
    async with runtime.serving():
        listening = runtime.open()
        gpu.breaks["run"] = broken()
        with caplog.at_level(logging.WARNING):
            assert (await said_on(runtime))[0] == [""]  # of the final that showed it
            await moved(runtime, "onnx-cuda")
            assert runtime.fallback == (
                "onnx-cuda is used. tensorrt: an illegal instruction. Update the driver."
            )
            assert runtime.about["retry"]["device"] == "tensorrt"
            assert value("edge_runtime_fallback") == 1
            assert value("edge_runtime_device_failures_total") == 2
            assert value("edge_runtime_device_moves_total", direction="away") == 1
            assert await said_on(runtime) == (["a a"], [])
            assert not gpu.closed
            await until(lambda: "tensorrt fails still" in caplog.text)
            gpu.breaks.clear()
            await moved(runtime, "tensorrt")
        assert runtime.fallback is None
        assert runtime.about["retry"] is None
        assert value("edge_runtime_fallback") == 0
        assert value("edge_runtime_device_moves_total", direction="back") == 1
        assert await said_on(runtime) == (["a a"], [])
        listening.stop()
        told = [event async for event in listening]
        assert [event.message for event in told if isinstance(event, WarningEvent)] == [
            "tensorrt failed: onnx-cuda is used from now on.",
            "tensorrt works again, and is used from now on.",
        ]
        # Four times the same noise, after the tries that failed, before a session is given to it.
        assert gpu.ran[:8] == ["proof"] * 8
    assert "tensorrt keeps failing: an illegal instruction" in caplog.text


async def test_a_device_that_answers_now_so_now_so_is_not_gone_back_to(
    make, devices: Devices, monkeypatch, caplog
) -> None:
    runtime, gpu = make("auto", ONCE), devices["tensorrt"]
    heard = FakeRunner.run
    odds = itertools.cycle((-9.0, -1.0, -5.0))

    def fickle(self, updates, audio):
        (found,) = heard(self, updates, audio)
        if self.chain.device is gpu:
            object.__setattr__(found, "logprobs", (next(odds), -0.1))
        return [found]

    async with runtime.serving():
        gpu.breaks["run"] = broken()
        await said_on(runtime)
        await moved(runtime, "onnx-cuda")
        monkeypatch.setattr(FakeRunner, "run", fickle)
        gpu.breaks.clear()
        await until(lambda: "does not say the same of the same sound" in caplog.text)
        assert runtime.device.name == "onnx-cuda"
        monkeypatch.setattr(FakeRunner, "run", heard)
        await moved(runtime, "tensorrt")


async def test_a_device_that_is_lost_at_a_try_is_tried_no_more(
    make, devices: Devices, caplog
) -> None:
    runtime, gpu = make("auto", ONCE), devices["tensorrt"]
    async with runtime.serving():
        gpu.breaks["run"] = broken()
        await said_on(runtime)
        gpu.breaks["run"] = lost()
        await until(lambda: "tensorrt is lost, and not tried again" in caplog.text)
        await until(lambda: runtime.about["retry"] is None)
        assert await said_on(runtime) == (["a a"], [])
        assert runtime.device.name == "onnx-cuda"


async def test_the_next_device_is_judged_as_well_and_the_first_waits_on(
    make, devices: Devices, soon
) -> None:
    soon["pause"] = 0.1
    runtime = make("auto", ONCE)
    async with runtime.serving():
        for name, following in (("tensorrt", "onnx-cuda"), ("onnx-cuda", "cpu")):
            devices[name].breaks["run"] = broken()
            await said_on(runtime)
            await moved(runtime, following)
        devices["tensorrt"].breaks.clear()
        await moved(runtime, "tensorrt")
        assert runtime.fallback is None


async def test_once_the_first_is_lost_the_next_that_fails_is_gone_back_to(
    make, devices: Devices, soon, caplog
) -> None:
    runtime = make("auto", ONCE)
    async with runtime.serving():
        devices["tensorrt"].breaks["run"] = broken()
        await said_on(runtime)
        devices["tensorrt"].breaks["run"] = lost()
        await until(lambda: "tensorrt is lost, and not tried again" in caplog.text)
        soon["pause"] = 0.1
        for _ in range(2):
            devices["onnx-cuda"].breaks["run"] = broken()
            await said_on(runtime)
            await moved(runtime, "cpu")
            assert runtime.about["retry"]["device"] == "onnx-cuda"
            devices["onnx-cuda"].breaks.clear()
            await moved(runtime, "onnx-cuda")
            assert await said_on(runtime) == (["a a"], [])
            assert runtime.about["retry"] is None
            assert runtime.fallback == (
                "onnx-cuda is used. tensorrt: an illegal instruction. Update the driver."
            )


async def test_a_next_one_that_no_other_can_replace_leaves_the_first_waiting(
    make, devices: Devices, soon, caplog
) -> None:
    soon["pause"] = 0.3
    runtime = make("auto", ONCE)
    async with runtime.serving():
        devices["tensorrt"].breaks["run"] = broken()
        await said_on(runtime)
        await moved(runtime, "onnx-cuda")
        devices["cpu"].breaks["load"] = DeviceError("no memory", "Get more.")
        devices["onnx-cuda"].breaks["run"] = broken()
        await said_on(runtime)
        await until(lambda: "nothing but onnx-cuda can be used: no memory" in caplog.text)
        assert runtime.about["retry"]["device"] == "tensorrt"
        devices["tensorrt"].breaks.clear()
        await moved(runtime, "tensorrt")
        assert runtime.fallback is None


async def test_without_another_device_it_is_put_up_with(make, devices: Devices, caplog) -> None:
    runtime = make("cpu", ONCE)
    async with runtime.serving():
        devices["cpu"].breaks["run"] = broken()
        assert await said_on(runtime) == ([""], [DeviceError.code])
        assert await said_on(runtime) == ([""], [DeviceError.code])
        devices["cpu"].breaks.clear()
        assert await said_on(runtime) == (["a a"], [])
    assert "cpu keeps failing, and no other device may be used" in caplog.text


async def test_where_no_other_loads_it_is_gone_on_with(make, devices: Devices, caplog) -> None:
    runtime = make("auto", ONCE)
    async with runtime.serving():
        for name in ("onnx-cuda", "cpu"):
            devices[name].breaks["load"] = DeviceError("no memory", "Get more.")
        devices["tensorrt"].breaks["run"] = broken()
        await said_on(runtime)
        await until(lambda: "nothing but tensorrt can be used: no memory" in caplog.text)
        devices["tensorrt"].breaks.clear()
        await moved(runtime, "tensorrt")
        assert await said_on(runtime) == (["a a"], [])
        assert runtime.about["retry"] is None


async def test_segments_stay_short_enough_to_go_back(make, devices: Devices, soon) -> None:
    soon["pause"] = 9.0
    devices["tensorrt"].size = Size(1, 80_000)
    runtime = make("auto", ONCE)
    async with runtime.serving():
        devices["tensorrt"].breaks["run"] = broken()
        await said_on(runtime)
        await moved(runtime, "onnx-cuda")
        assert runtime.loaded.size.samples == 80_000


async def test_the_end_waits_for_no_try(make, devices: Devices, soon) -> None:
    soon["pause"] = 60.0
    runtime = make("auto", ONCE)
    async with runtime.serving():
        devices["tensorrt"].breaks["run"] = broken()
        await said_on(runtime)
        await moved(runtime, "onnx-cuda")
        task = runtime._decoder.standby._task
    await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 1)


@pytest.mark.parametrize(("device", "following"), [("auto", "cpu"), ("cpu", "cpu")])
async def test_what_a_hanging_lane_had_is_decoded_elsewhere(
    make, devices: Devices, device: str, following: str
) -> None:
    """By the next device, or, where there is none, by other lanes of the same."""
    runtime = make(device)
    hanging = runtime.device
    async with runtime.serving():
        stream = runtime.open(Options(partials=False, speculate=False))
        hanging.held = {stream.session.name}
        await stream.feed(TURN)
        stream.stop()
        await until(lambda: runtime._decoder.idle == 0)
        hanging.held = set()
        await runtime.leave(f"{hanging.name} hangs")
        events = [event async for event in stream]
        assert [event.text for event in events if isinstance(event, Final)] == ["a a"]
        assert runtime.device.name == following
        hanging.free.set()


def test_a_batch_that_fails_is_one_failure() -> None:
    metrics = Metrics()
    standby = Standby(ONCE.recovering, metrics.device, lambda loaded: None, None)
    error = broken()
    assert not any(standby.failed(f"s{row}", error) for row in range(8))
    assert metrics.value("edge_runtime_device_failures_total") == 8
    assert standby.failed("s1", broken())


def test_a_device_that_says_the_same_is_steady() -> None:
    device = FakeDevice("gpu")
    steady(FakeRunner(SimpleNamespace(shape=SHAPE, device=device), Size(1, 32_000)))
    assert set(device.ran) == {"proof"}

"""A device that fails at the start or is lost while it serves: the next one goes on."""

from __future__ import annotations

import asyncio
import logging

import numpy as np
import pytest

from edge_runtime.audio import FRAME
from edge_runtime.config import Computing, Config, Serving
from edge_runtime.errors import DeviceError, DeviceLost
from edge_runtime.events import Closed, Final
from edge_runtime.events import Warning as WarningEvent
from edge_runtime.runtime import Options, Runtime, Stream
from tests.fakes.lanes import FakeDevice, lost
from tests.waiting import until

Devices = dict[str, FakeDevice]
WORDS = np.append(np.ones(40 * FRAME, np.float32), np.zeros(30 * FRAME, np.float32))
"""A turn, and the silence that ends it."""


async def finals(stream: Stream) -> list[Final]:
    return [event async for event in stream if isinstance(event, Final)]


async def said_on(runtime: Runtime) -> list[str]:
    """What a turn gives now."""
    stream = runtime.open(Options(partials=False))
    await stream.feed(WORDS)
    stream.stop()
    return [final.text for final in await asyncio.wait_for(finals(stream), 5)]


async def test_a_lost_gpu_takes_no_final_along(make, devices: Devices, caplog) -> None:
    runtime = make()
    async with runtime.serving():
        assert await said_on(runtime) == ["a a"]
        assert runtime.device.name == "tensorrt"
        assert runtime.fallback is None
        assert runtime.metrics.value("edge_runtime_fallback") == 0
        devices["tensorrt"].breaks["run"] = lost()
        with caplog.at_level(logging.WARNING):
            assert await said_on(runtime) == ["a a"]
        # what runs on the same GPU is not tried
        assert runtime.device.name == "cpu"
        assert devices["onnx-cuda"].ran == []
        assert "tensorrt fell off the bus. Restart the machine." in runtime.fallback
        assert runtime.lost is None
        assert runtime.metrics.value("edge_runtime_fallback") == 1
        assert await said_on(runtime) == ["a a"]
    assert "tensorrt is lost: tensorrt fell off the bus" in caplog.text


async def test_what_all_lanes_had_in_hand_is_decoded_once(make, devices: Devices) -> None:
    gpu = devices["tensorrt"] = FakeDevice("tensorrt", lanes=3)
    runtime = make()
    async with runtime.serving():
        streams = [runtime.open(Options(partials=False)) for _ in range(5)]
        gpu.held = {stream.session.name for stream in streams}
        reading = [asyncio.create_task(finals(stream)) for stream in streams]
        for stream in streams:
            await stream.feed(WORDS)
            stream.stop()
        await until(lambda: runtime._decoder.idle == 0)
        gpu.breaks["run"] = lost()
        gpu.free.set()
        found = await asyncio.wait_for(asyncio.gather(*reading), 5)
        assert [[final.text for final in each] for each in found] == [["a a"]] * 5
        assert sorted(set(devices["cpu"].ran)) == sorted(s.session.name for s in streams)
        assert runtime._decoder.idle == devices["cpu"].lanes


async def test_a_lane_that_hangs_holds_nothing_up(make, devices: Devices, caplog) -> None:
    """And what it says at last, nobody hears."""
    gpu = devices["tensorrt"] = FakeDevice("tensorrt", lanes=2)
    runtime = make()
    async with runtime.serving():
        hanging = runtime.open(Options(partials=False))
        gpu.held = {hanging.session.name}
        reading = asyncio.create_task(finals(hanging))
        await hanging.feed(WORDS)
        hanging.stop()
        await until(lambda: runtime._decoder.idle == 1)
        gpu.breaks["run"] = lost()
        assert await said_on(runtime) == ["a a"]
        assert [final.text for final in await asyncio.wait_for(reading, 5)] == ["a a"]
        gpu.breaks.clear()
        gpu.free.set()
        await until(lambda: gpu.ran == [hanging.session.name])
        assert await said_on(runtime) == ["a a"]
        assert runtime._decoder.idle == 1
    assert "Exception in callback" not in caplog.text


@pytest.mark.parametrize("place", ["load", "warm"])
async def test_a_device_that_fails_at_the_start_is_passed_over(
    make, devices: Devices, caplog, place: str
) -> None:
    devices["tensorrt"].breaks[place] = DeviceError("no engine was built", "Run: build")
    with caplog.at_level(logging.WARNING):
        runtime = make()
        async with runtime.serving():
            assert runtime.device.name == "onnx-cuda"
            assert await said_on(runtime) == ["a a"]
    assert runtime.fallback == "onnx-cuda is used. tensorrt: no engine was built. Run: build"
    assert runtime.metrics.value("edge_runtime_fallback") == 1
    assert "tensorrt cannot be used, onnx-cuda is next: no engine was built" in caplog.text
    assert devices["tensorrt"].closed == (place == "warm")  # its memory is free for the next


async def test_a_fallback_may_fail_too(make, devices: Devices) -> None:
    devices["tensorrt"].breaks["load"] = DeviceError("no engine was built", "Run: build")
    devices["onnx-cuda"].breaks["warm"] = DeviceError("no memory", "Get more.")
    runtime = make()
    async with runtime.serving():
        assert await said_on(runtime) == ["a a"]
    assert runtime.fallback == (
        "cpu is used. tensorrt: no engine was built. Run: build; onnx-cuda: no memory. Get more."
    )


def test_where_no_device_is_left_the_last_error_is_told(make, devices: Devices) -> None:
    for device in devices.values():
        device.breaks["load"] = DeviceError(f"{device.name} is broken", "Mend it.")
    with pytest.raises(DeviceError, match="cpu is broken"):
        make()


async def test_a_device_that_is_named_is_used_or_an_error(make, devices: Devices) -> None:
    devices["tensorrt"].breaks["warm"] = DeviceError("no memory", "Get more.")
    runtime = make("tensorrt")
    with pytest.raises(DeviceError, match="no memory"):
        async with runtime.serving():
            raise AssertionError
    assert runtime.fallback is None


async def test_a_named_device_that_is_lost_ends_its_sessions(
    make, devices: Devices, caplog
) -> None:
    runtime = make("tensorrt")
    async with runtime.serving():
        devices["tensorrt"].breaks["run"] = lost()
        stream = runtime.open(Options(partials=False))
        await stream.feed(WORDS)
        events = await asyncio.wait_for(_all(stream), 5)
        assert isinstance(events[-1], Closed)
        assert events[-1].reason == "error"
        codes = {event.code for event in events if isinstance(event, WarningEvent)}
        assert codes == {DeviceLost.code}
        assert "fell off the bus" in runtime.lost
    assert devices["cpu"].ran == []
    assert "nothing is decoded any more" in caplog.text


async def _all(stream: Stream) -> list:
    return [event async for event in stream]


async def test_an_update_that_fails_on_a_healthy_device_is_lost_alone(
    make, devices: Devices
) -> None:
    runtime = make()
    async with runtime.serving():
        devices["tensorrt"].breaks["run"] = DeviceError("no memory", "Get more.")
        assert await said_on(runtime) == [""]
        devices["tensorrt"].breaks.clear()
        assert await said_on(runtime) == ["a a"]
        assert runtime.device.name == "tensorrt"
        assert runtime.fallback is None


async def test_stopping_waits_for_the_move(make, devices: Devices) -> None:
    runtime = make()
    async with runtime.serving():
        devices["tensorrt"].breaks["run"] = lost()
        stream = runtime.open(Options(partials=False))
        await stream.feed(WORDS)
        await until(lambda: runtime._decoder._moving is not None or runtime.fallback)
    assert runtime.device.name == "cpu"
    assert runtime._decoder._engine is None


async def test_what_lanes_do_is_counted_from_the_warm_up_on(make) -> None:
    runtime = make()
    value = runtime.metrics.value
    async with runtime.serving():
        assert await said_on(runtime) == ["a a"]
        assert await said_on(runtime) == ["a a"]
    updates = sum(
        value("edge_runtime_updates_total", purpose=purpose)
        for purpose in ("speculative", "final", "partial")
    )
    copied = {
        kind: value("edge_runtime_copied_bytes_total", direction=way, kind=kind)
        for way, kind in (("in", "audio"), ("out", "results"))
    }
    assert updates >= 2
    assert copied["results"] == 24 * updates
    assert 4 * 80 * FRAME <= copied["audio"] < 1_000_000
    assert value("edge_runtime_graphs_total", result="hit") == 2 * updates
    assert value("edge_runtime_graphs_total", result="miss") == 0
    assert value("edge_runtime_near_ties_total") == updates
    for kind, made in (("samples", 32_000), ("queries", 16)):
        real, padding = (
            value("edge_runtime_padding_total", kind=kind, part=part)
            for part in ("real", "padding")
        )
        assert real == (copied["audio"] / 4 if kind == "samples" else 3 * updates)
        assert real + padding == made * updates
    assert value("edge_runtime_host_waits_sum", purpose="speculative") == 3 * value(
        "edge_runtime_updates_total", purpose="speculative"
    )


@pytest.mark.parametrize(("device", "stirs"), [("tensorrt", True), ("cpu", False)])
async def test_a_gpu_is_kept_warm_while_somebody_may_speak(
    make, devices: Devices, device: str, stirs: bool
) -> None:
    config = Config(computing=Computing(keep_warm_ms=20), serving=Serving())
    runtime, ran = make(device, config), devices[device].ran
    async with runtime.serving():
        await asyncio.sleep(0.15)
        assert ran == []  # no session is open
        stream = runtime.open()
        await asyncio.sleep(0.3)
        assert ("keep-warm" in ran) == stirs
        assert runtime.metrics.value("edge_runtime_updates_total", purpose="partial") == 0
        stream.stop()

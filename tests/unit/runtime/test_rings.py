"""Rings lie where the device sees them; their memory is there before a session speaks."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from edge_runtime.audio.ring import Ring
from edge_runtime.config import Config, Serving
from edge_runtime.device.cuda import open_driver
from edge_runtime.device.cuda.budget import Budget
from edge_runtime.device.cuda.device import CudaDevice
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.errors import DeviceError, MemoryCapped, ServerFull
from edge_runtime.events import Closed
from edge_runtime.runtime.rings import Rings, ring_memory
from tests.fakes.cuda_names import CUresult
from tests.fakes.gpu import FakeGpu
from tests.fakes.lanes import FakeDevice, lost
from tests.waiting import until

ONE = np.ones(1, np.float32)


def test_a_ring_is_in_memory_that_the_device_sees(gpu: FakeGpu) -> None:
    device = CudaDevice(open_driver(0, "cuda-bindings"))
    ring = Ring(ring_memory(device, 5))
    ring.write(np.arange(7, dtype=np.float32))
    pieces = ring.pieces(2, 7)
    assert [piece.tolist() for piece in pieces] == [[2, 3, 4], [5, 6]]
    for piece in pieces:
        assert device._arena.seen(piece.ctypes.data, piece.nbytes) == piece.ctypes.data
    assert device.budget.by_kind["pinned"] == 256
    del ring, pieces, piece
    device.close()
    gpu.check_released()


def test_the_cpu_has_rings_as_well() -> None:
    assert ring_memory(OnnxDevice(), 5).tolist() == [0] * 5


def test_for_want_of_pinned_memory_a_ring_is_elsewhere(gpu: FakeGpu, caplog) -> None:
    device = CudaDevice(open_driver(0, "cuda-bindings"))
    gpu.fail("cuMemHostAlloc", CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    with caplog.at_level(logging.WARNING):
        memory = ring_memory(device, 5)
    assert "memory that the GPU does not see: no 256 bytes of page-locked memory" in caplog.text
    assert memory.tolist() == [0] * 5
    caplog.clear()


def test_a_cap_on_memory_is_a_cap_on_rings(gpu: FakeGpu) -> None:
    """Memory that the GPU does not see would be the same memory on a Jetson."""
    device = CudaDevice(open_driver(0, "cuda-bindings"), budget=Budget(1024))
    rings = Rings(device, 64, 9)  # 256 bytes each: four are made
    assert device.budget.by_kind["pinned"] == 1024
    opened = [rings.open(lambda: device) for _ in range(5)]
    for ring in opened[:4]:
        ring.write(ONE)
    with pytest.raises(ServerFull, match="no memory for another session: no 256 bytes") as caught:
        opened[4].write(ONE)
    assert "memory_mb" in caught.value.fix
    assert isinstance(caught.value.__cause__, MemoryCapped)
    assert opened[4].written == 0
    rings.close(opened[0])
    opened[4].write(ONE)
    assert opened[4].read(0, 1).tolist() == [1]


def test_memory_is_taken_with_the_first_audio_and_taken_again() -> None:
    device = FakeDevice("tensorrt")
    rings = Rings(device, 8, 2)
    assert device.made == [((8,), "mapped")] * 2
    opened = [rings.open(lambda: device) for _ in range(9)]
    for ring in opened[:3]:
        ring.write(ONE)
    assert len(device.made) == 3
    rings.close(opened[3])  # which never heard anything
    rings.close(opened[1])
    assert rings.open(lambda: device).written == 0
    opened[4].write(ONE)
    assert len(device.made) == 3
    opened[5].write(ONE)
    assert len(device.made) == 4


def test_that_of_a_device_that_is_left_is_let_go() -> None:
    old, new = FakeDevice("tensorrt"), FakeDevice("cpu")
    rings = Rings(old, 8, 2)
    used = old
    kept, fresh, third, fourth = (rings.open(lambda: used) for _ in range(4))
    kept.write(ONE)
    used = new  # the device of the first audio counts, not the one of the opening
    fresh.write(ONE)
    assert (len(old.made), len(new.made)) == (2, 1)
    rings.close(kept)
    rings.close(fresh)
    third.write(ONE)
    assert len(new.made) == 1
    fourth.write(ONE)
    assert (len(old.made), len(new.made)) == (2, 2)


@pytest.mark.parametrize(("most", "made"), [(2, 2), (8, 4)])
async def test_the_first_to_speak_find_theirs_made(make, devices, most: int, made: int) -> None:
    runtime = make("cpu", Config(serving=Serving(max_sessions=most)))
    assert len(devices["cpu"].made) == made
    ((shape, kind),) = set(devices["cpu"].made)
    assert shape[0] >= 30 * 16_000
    assert kind == "mapped"
    async with runtime.serving():
        streams = [runtime.open() for _ in range(most)]
        assert len(devices["cpu"].made) == made
        for stream in streams:
            await stream.feed(ONE)
        assert len(devices["cpu"].made) == most


async def test_sessions_outlive_their_device_with_their_rings(make, devices) -> None:
    gpu, cpu = devices["tensorrt"], devices["cpu"]
    runtime = make()
    async with runtime.serving():
        before, waiting = runtime.open(), runtime.open()
        await before.feed(ONE)
        made = len(gpu.made)
        gpu.breaks["alloc"] = gpu.breaks["run"] = lost()
        runtime._decoder.loaded = await _moved(runtime)
        after = runtime.open()
        for stream in (before, waiting, after):
            await stream.feed(ONE)
        assert before.session.ring.written == 2
        assert before.session.ring.capacity == after.session.ring.capacity
    assert (len(gpu.made), len(cpu.made)) == (made, 2)


async def _moved(runtime):
    return runtime._decoder._loader.following(runtime.loaded, lost())


async def test_a_session_speaks_on_a_device_that_is_lost(make, devices) -> None:
    runtime = make("tensorrt", Config(serving=Serving(max_sessions=9)))
    async with runtime.serving():
        devices["tensorrt"].breaks["alloc"] = DeviceError("no memory", "Get more.")
        for _ in range(9):
            stream = runtime.open()
            await stream.feed(ONE)
            assert stream.session.ring.written == 1


@pytest.mark.parametrize("live", [False, True])
async def test_a_session_without_memory_ends_with_that_error_and_the_others_go_on(
    make, devices, live: bool
) -> None:
    runtime = make("cpu", Config(serving=Serving(max_sessions=3)))
    async with runtime.serving():
        devices["cpu"].breaks["alloc"] = MemoryCapped("no memory", "Raise memory_mb.")
        runtime._streams.rings._spare.pop()
        streams = [runtime.open() for _ in range(3)]
        for stream in streams:
            if live:
                stream.offer(ONE)
            else:
                await stream.feed(ONE)
        with pytest.raises(ServerFull, match=r"another session: no memory\. Raise memory_mb\."):
            await anext(streams[2])
        await streams[2].feed(ONE)  # of which nobody hears
        streams[2].stop()
        await until(lambda: runtime.sessions == 2)
        streams[0].stop()
        assert [type(event) async for event in streams[0]] == [Closed]
        again = runtime.open()  # with the memory of that one
        await again.feed(ONE)
        again.stop()
        assert [type(event) async for event in again] == [Closed]

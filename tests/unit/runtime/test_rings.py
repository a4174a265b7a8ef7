"""Rings lie where the device sees them, and are there before a session comes."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from edge_runtime.config import Config, Serving
from edge_runtime.device.cuda import open_driver
from edge_runtime.device.cuda.device import CudaDevice
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.errors import DeviceError
from edge_runtime.runtime.rings import Rings, make_ring
from tests.fakes import cuda
from tests.fakes.cuda_names import CUresult
from tests.fakes.gpu import FakeGpu
from tests.fakes.lanes import FakeDevice, lost


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    made = FakeGpu()
    cuda.install(monkeypatch, made)
    return made


def test_a_ring_is_in_memory_that_the_device_sees(gpu: FakeGpu) -> None:
    device = CudaDevice(open_driver(0, "cuda-bindings"))
    ring = make_ring(device, 5)
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
    ring = make_ring(OnnxDevice(), 5)
    ring.write(np.ones(3, np.float32))
    assert ring.read(0, 3).tolist() == [1, 1, 1]


def test_for_want_of_pinned_memory_a_ring_is_elsewhere(gpu: FakeGpu, caplog) -> None:
    device = CudaDevice(open_driver(0, "cuda-bindings"))
    gpu.fail("cuMemHostAlloc", CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    with caplog.at_level(logging.WARNING):
        ring = make_ring(device, 5)
    assert "memory that the GPU does not see: no 256 bytes of page-locked memory" in caplog.text
    ring.write(np.ones(3, np.float32))
    assert ring.read(0, 3).tolist() == [1, 1, 1]
    caplog.clear()


def test_rings_that_come_back_are_taken_again() -> None:
    device = FakeDevice("tensorrt")
    rings = Rings(device, 8, 2)
    assert device.made == [((8,), "mapped")] * 2
    taken = [rings.take(device) for _ in range(3)]
    assert len(device.made) == len(set(taken)) == 3
    taken[1].write(np.ones(4, np.float32))
    rings.give(taken[1])
    again = rings.take(device)
    assert again is taken[1]
    assert again.written == 0
    assert len(device.made) == 3


def test_those_of_a_device_that_is_left_are_let_go() -> None:
    old, new = FakeDevice("tensorrt"), FakeDevice("cpu")
    rings = Rings(old, 8, 2)
    kept = rings.take(old)
    fresh = rings.take(new)
    assert (len(old.made), len(new.made)) == (2, 1)
    rings.give(kept)
    rings.give(fresh)
    assert rings.take(new) is fresh
    assert kept is not rings.take(new)
    assert (len(old.made), len(new.made)) == (2, 2)


@pytest.mark.parametrize(("most", "made"), [(2, 2), (8, 4)])
async def test_the_first_sessions_find_theirs_made(make, devices, most: int, made: int) -> None:
    runtime = make("cpu", Config(serving=Serving(max_sessions=most)))
    assert len(devices["cpu"].made) == made
    ((shape, kind),) = set(devices["cpu"].made)
    assert shape[0] >= 30 * 16_000
    assert kind == "mapped"
    async with runtime.serving():
        streams = [runtime.open() for _ in range(most)]
        assert len(devices["cpu"].made) == most
        assert len({stream.session.ring for stream in streams}) == most


async def test_sessions_outlive_their_device_with_their_rings(make, devices) -> None:
    gpu, cpu = devices["tensorrt"], devices["cpu"]
    runtime = make()
    async with runtime.serving():
        before = runtime.open()
        made = len(gpu.made)
        gpu.breaks["alloc"] = gpu.breaks["run"] = lost()
        runtime._decoder.loaded = await _moved(runtime)
        after = runtime.open()
        assert after.session.ring is not before.session.ring
        assert before.session.ring.capacity == after.session.ring.capacity
    assert (len(gpu.made), len(cpu.made)) == (made, 1)


async def _moved(runtime):
    return runtime._decoder._loader.following(runtime.loaded, lost())


async def test_a_session_opens_on_a_device_that_is_lost(make, devices) -> None:
    runtime = make("tensorrt", Config(serving=Serving(max_sessions=9)))
    async with runtime.serving():
        devices["tensorrt"].breaks["alloc"] = DeviceError("no memory", "Get more.")
        assert len({runtime.open().session.ring for _ in range(9)}) == 9

"""A kernel reads staged audio where it lies, wherever it can be seen; else it is copied."""

import logging
from typing import Any

import numpy as np
import pytest

from edge_runtime.device.cuda import device as room
from edge_runtime.device.cuda import open_driver
from edge_runtime.device.cuda.device import CudaDevice
from edge_runtime.errors import DeviceError, DeviceLost, MissingExtra
from tests.fakes.cuda_names import CUresult
from tests.fakes.gpu import FakeGpu, Fault


def ramp(size: int, start: float = 1.0) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.arange(start, start + size, dtype=np.float32)


@pytest.fixture
def launched(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """How many samples each launch took of its two pieces."""
    made: list[tuple[int, int]] = []

    def seen(pointer: int, count: int) -> np.ndarray[Any, Any]:
        memory = gpu._lies(pointer, 4 * count)
        if memory is None or not memory.mapped:
            raise Fault(CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
        return gpu.array(pointer, (count,), np.float32)

    def gather(row: int, size: int, first: int, count: int, second: int, more: int) -> None:
        out = gpu.array(row, (size,), np.float32)
        out[:] = 0
        out[:count] = seen(first, count) if count else ()
        out[count : count + more] = seen(second, more) if more else ()
        made.append((count, more))

    gpu.kernels["gather"] = gather
    monkeypatch.setattr(room, "compiled", lambda *given: b"code")
    return made


def read(device: CudaDevice, buffer: Any) -> list[Any]:
    stream, target = device.stream(), device.alloc(buffer.shape, buffer.dtype, "pinned")
    device.copy(buffer, target, stream, "read")
    stream.synchronize()
    found: list[Any] = target.host.tolist()
    return found


def test_reads_a_ring_where_it_lies(device: CudaDevice, gpu: FakeGpu, launched) -> None:
    assert device.gather()
    ring = device.alloc((10,), np.float32, "mapped")
    ring.host[:] = ramp(10)
    rows = device.alloc((2, 9), np.float32)
    stream, row = device.stream(), rows.view((9,), 9)
    copies, fills = gpu.calls.get("cuMemcpyAsync", 0), gpu.calls["cuMemsetD8Async"]
    device.stage([ring.host[7:], ring.host[:4]], row, stream)
    device.stage([ring.host[8:], ring.host[:0]], rows.view((9,)), stream)
    stream.synchronize()
    assert launched == [(3, 4), (2, 0)]
    assert gpu.calls.get("cuMemcpyAsync", 0) == copies
    assert gpu.calls["cuMemsetD8Async"] == fills
    assert stream.counters.copied == {"audio": 28 + 8}
    assert read(device, rows) == [
        [9, 10] + [0] * 7, [8, 9, 10, 1, 2, 3, 4, 0, 0],
    ]  # fmt: skip
    device.stage([], row, stream)
    assert read(device, row) == [0.0] * 9


def test_what_it_cannot_see_is_copied(device: CudaDevice, launched) -> None:
    assert device.gather()
    mapped, pinned = (device.alloc((4,), np.float32, kind) for kind in ("mapped", "pinned"))
    mapped.host[:], pinned.host[:] = ramp(4), ramp(4, 11)
    row, stream = device.alloc((6,), np.float32), device.stream()
    for pieces, wanted in (
        ([mapped.host[:2], pinned.host[:2]], [1, 2, 11, 12, 0, 0]),
        ([ramp(3, 21)], [21, 22, 23, 0, 0, 0]),
        ([mapped.host[3:], mapped.host[:1], mapped.host[1:2]], [4, 1, 2, 0, 0, 0]),
        ([pinned.host], [11, 12, 13, 14, 0, 0]),
    ):
        device.stage(pieces, row, stream)
        stream.synchronize()
        assert read(device, row) == wanted
    device.stage([], row.view((0,)), stream)
    assert launched == []


def test_pinned_memory_of_an_integrated_gpu_is_seen(gpu: FakeGpu, library: str, launched) -> None:
    gpu.integrated = True
    device = CudaDevice(open_driver(0, library))
    assert device.gather()
    pinned, row = device.alloc((3,), np.float32, "pinned"), device.alloc((4,), np.float32)
    pinned.host[:] = ramp(3)
    device.stage([pinned.host[1:]], row, device.stream())
    assert read(device, row) == [2.0, 3.0, 0.0, 0.0]
    assert launched == [(2, 0)]
    device.close()


def test_memory_of_another_device_or_gone_is_not_seen(
    device: CudaDevice, library: str, launched
) -> None:
    assert device.gather()
    other = CudaDevice(open_driver(0, library))
    theirs = other.alloc((4,), np.float32, "mapped")
    theirs.host[:] = ramp(4)
    row, stream = device.alloc((4,), np.float32), device.stream()
    device.stage([theirs.host], row, stream)
    assert read(device, row) == [1.0, 2.0, 3.0, 4.0]
    ours = device.alloc((4,), np.float32, "mapped")
    at = ours.host.ctypes.data
    assert device._arena.seen(at, 16) == ours.pointer
    assert device._arena.seen(at + 4, 12) == ours.pointer + 4
    assert device._arena.seen(at + 4, 256) is None
    assert device._arena.seen(at - 1, 4) is None
    del ours
    device.reclaim()
    assert device._arena.seen(at, 16) is None
    assert launched == []
    del theirs
    other.close()


def test_it_can_be_captured(device: CudaDevice, gpu: FakeGpu, launched) -> None:
    assert device.gather()
    gpu.deferred = True
    ring, row = device.alloc((4,), np.float32, "mapped"), device.alloc((4,), np.float32)
    stream = device.stream()
    graph = device.capture(lambda: device.stage([ring.host], row, stream), stream)
    assert graph.nodes == {"kernel": 1}
    ring.host[:] = ramp(4)
    graph.replay()
    stream.synchronize()
    assert read(device, row) == [1.0, 2.0, 3.0, 4.0]
    assert stream.counters.copied == {"audio": 16}


@pytest.mark.parametrize("error", [MissingExtra, DeviceError])
def test_without_a_kernel_audio_is_copied_and_that_is_said(
    device: CudaDevice, monkeypatch: pytest.MonkeyPatch, caplog, error: Any
) -> None:
    def fails(*given: object) -> bytes:
        raise error("NVRTC does not do it", "Install another.")

    monkeypatch.setattr(room, "compiled", fails)
    with caplog.at_level(logging.WARNING):
        assert not device.gather()
    assert "no kernel gathers it: NVRTC does not do it. Install another." in caplog.text
    caplog.clear()  # the error there holds frames, and so the buffers of this test
    ring, row = device.alloc((4,), np.float32, "mapped"), device.alloc((4,), np.float32)
    ring.host[:] = ramp(4)
    device.stage([ring.host], row, device.stream())
    assert read(device, row) == [1.0, 2.0, 3.0, 4.0]


def test_a_device_that_is_lost_is_no_missing_kernel(
    device: CudaDevice, gpu: FakeGpu, launched
) -> None:
    gpu.fail("cuModuleLoadData", CUresult.CUDA_ERROR_LAUNCH_FAILED)
    with pytest.raises(DeviceLost, match="cuModuleLoadData"):
        device.gather()
    assert device.gather()
    ring, row = device.alloc((4,), np.float32, "mapped"), device.alloc((4,), np.float32)
    gpu.fail("cuLaunchKernel", CUresult.CUDA_ERROR_INVALID_VALUE)
    with pytest.raises(DeviceError, match="4 samples could not be gathered: cuLaunchKernel says"):
        device.stage([ring.host], row, device.stream())


def test_modules_are_unloaded(device: CudaDevice, gpu: FakeGpu, launched) -> None:
    assert device.gather()
    assert len(gpu.modules) == 1
    with pytest.raises(DeviceError, match="CUDA_ERROR_NOT_FOUND"):
        device.module(b"code", ["gather", "another"])
    assert len(gpu.modules) == 1
    module = device.module(b"code", ["gather"])
    module.close()
    module.close()
    assert len(gpu.modules) == 1
    device.close()
    assert not gpu.modules
    with pytest.raises(DeviceError, match="closed"):
        device.module(b"code", ["gather"])


def test_a_lost_device_is_left_with_its_modules(device: CudaDevice, gpu: FakeGpu, launched) -> None:
    assert device.gather()
    gpu.lose()
    device.close()

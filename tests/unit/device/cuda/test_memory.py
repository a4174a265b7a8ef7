"""Buffers are what was asked for, share memory with their views, and live as long as these."""

import gc
import logging
import threading

import numpy as np
import pytest

from edge_runtime.device.cuda.budget import Budget
from edge_runtime.device.cuda.device import CudaDevice
from edge_runtime.errors import DeviceError
from tests.fakes.cuda_names import CUresult
from tests.fakes.gpu import FakeGpu


def test_pinned_memory_is_the_hosts(device: CudaDevice) -> None:
    buffer = device.alloc((3, 2), np.float16, "pinned")
    assert (buffer.shape, buffer.dtype, buffer.kind) == ((3, 2), np.float16, "pinned")
    assert buffer.host.shape == (3, 2)
    assert not buffer.host.any()
    assert buffer.host is buffer.host
    assert buffer.pointer == buffer.host.ctypes.data


def test_mapped_memory_has_both_addresses(device: CudaDevice, gpu: FakeGpu) -> None:
    buffer = device.alloc((8,), np.int32, "mapped")
    assert buffer.kind == "mapped"
    buffer.host[:] = np.arange(8)
    assert gpu.array(buffer.pointer, (8,), np.int32).tolist() == list(range(8))
    assert buffer.view((2,), 3).pointer == buffer.pointer + 12


def test_the_devices_memory_is_zeroed_and_hidden(device: CudaDevice, gpu: FakeGpu) -> None:
    gpu.deferred = True
    buffer = device.alloc((5, 7), np.float32)
    assert buffer.kind == "device"
    assert not gpu.array(buffer.pointer, (5, 7), np.float32).any()
    with pytest.raises(DeviceError, match=r"\(5, 7\) lies on the device.*Copy it"):
        _ = buffer.host


@pytest.mark.parametrize("kind", ["pinned", "mapped", "device"])
@pytest.mark.parametrize("size", [0, 1, 255, 256, 257])
def test_addresses_are_aligned(device: CudaDevice, gpu: FakeGpu, kind: str, size: int) -> None:
    buffer = device.alloc((size,), np.uint8, kind)  # type: ignore[arg-type]
    assert buffer.pointer % 256 == 0
    assert gpu.memory[-1].size == max(256, -(-size // 256) * 256)
    assert device.budget.taken == gpu.memory[-1].size


def test_on_an_integrated_gpu_pinned_memory_is_mapped(library: str, gpu: FakeGpu) -> None:
    from edge_runtime.device.cuda import open_driver

    gpu.integrated = True
    device = CudaDevice(open_driver(0, library))
    assert device.integrated
    assert device.alloc((4,), np.float32, "pinned").kind == "mapped"
    assert gpu.memory[-1].mapped
    assert device.budget.by_kind["pinned"] == 256
    device.close()
    gpu.check_released()


def test_a_view_begins_where_its_type_may(device: CudaDevice) -> None:
    buffer = device.alloc((4,), np.int64, "pinned")
    with pytest.raises(DeviceError, match="at byte 4 is not aligned"):
        buffer.view((8,), dtype=np.int32).view((1,), 1, np.int64)


def test_memory_lives_as_long_as_a_view_or_an_array(device: CudaDevice, gpu: FakeGpu) -> None:
    array = device.alloc((64,), np.float32, "pinned").view((2,), 4).host
    view = device.alloc((64,), np.float32).view((1,))
    device.reclaim()
    assert not any(each.freed for each in gpu.memory)
    array[:] = 3.0
    del array
    device.reclaim()
    assert [each.freed for each in gpu.memory] == [True, False]
    assert device.budget.by_kind["pinned"] == 0
    del view
    device.alloc((1,), np.uint8)  # releases what nobody holds, before it takes more
    assert gpu.memory[1].freed
    assert device.budget.taken == 256


def test_dropping_a_buffer_calls_nothing(device: CudaDevice, gpu: FakeGpu) -> None:
    buffer = device.alloc((64,), np.float32)
    before = dict(gpu.calls)
    held = [buffer]
    del buffer
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert gpu.calls == before
    device.reclaim()
    assert gpu.memory[0].freed


def test_buffers_are_over_when_the_device_is_closed(
    device: CudaDevice, gpu: FakeGpu, caplog: pytest.LogCaptureFixture
) -> None:
    there = device.alloc((4,), np.float32)
    here = device.alloc((4,), np.float32, "pinned")
    untouched = device.alloc((4,), np.float32, "pinned")
    array = here.host
    array[:] = 1.0
    with caplog.at_level(logging.INFO):
        device.close()
    # What lies under an array cannot go while the array is there.
    assert array.tolist() == [1.0] * 4
    assert "512 bytes of page-locked memory stay" in caplog.text
    assert gpu.retained == 1
    for buffer in (there, here, untouched):
        with pytest.raises(DeviceError, match="after its device was closed"):
            _ = buffer.pointer
    with pytest.raises(DeviceError, match="used after it was closed"):
        device.alloc((1,), np.float32)
    with pytest.raises(DeviceError, match="used after it was closed"):
        device.stream()
    assert [each.freed for each in gpu.memory] == [True, False, False]
    gpu.lose()  # so that the fixture does not look for what was left on purpose


def test_the_cap_is_kept_and_said(driver: object, gpu: FakeGpu) -> None:
    device = CudaDevice(driver, budget=Budget(4096))  # type: ignore[arg-type]
    kept = [device.alloc((2048,), np.uint8), device.alloc((1000,), np.uint8, "pinned")]
    with pytest.raises(DeviceError) as caught:
        device.alloc((256, 5), np.uint8)
    said = str(caught.value)
    for fact in ("no 1280 bytes of device", "3072 are taken", "4096", f"of {64 << 20} free"):
        assert fact in said
    with pytest.raises(DeviceError, match="no 1280 bytes of scratch"):
        device.stream().scratch(1100)
    with pytest.raises(DeviceError, match="no 2048 bytes of engine"):
        device.take(2048)
    kept.pop()
    device.alloc((256, 5), np.uint8)
    device.budget.check_integrity()
    assert device.budget.peak == 3328
    device.close()


@pytest.mark.parametrize("call", ["cuMemAlloc", "cuMemHostAlloc"])
def test_memory_that_is_refused_is_not_counted(device: CudaDevice, gpu: FakeGpu, call: str) -> None:
    gpu.fail(call, CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    kind = "device" if call == "cuMemAlloc" else "pinned"
    with pytest.raises(DeviceError, match="out of memory"):
        device.alloc((100,), np.float32, kind)  # type: ignore[arg-type]
    gpu.fail("cuMemAlloc", CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    with pytest.raises(DeviceError, match="out of memory"):
        device.take(100)
    assert device.budget.taken == 0
    device.budget.check_integrity()


def test_a_library_takes_and_gives(device: CudaDevice, gpu: FakeGpu) -> None:
    pointer = device.take(1000)
    assert pointer % 256 == 0
    assert device.budget.by_kind["engine"] == 1024
    buffer = device.alloc((4,), np.float32)
    with pytest.raises(DeviceError, match="was not taken"):
        device.give(buffer.pointer)
    device.give(pointer)
    assert device.budget.by_kind["engine"] == 0
    with pytest.raises(DeviceError, match="was not taken"):
        device.give(pointer)
    device.take(10)  # what is never given back goes when the device closes


def test_nothing_is_allocated_when_warm(device: CudaDevice) -> None:
    source, target = device.alloc((4,), np.float32, "pinned"), device.alloc((4,), np.float32)
    stream = device.stream()
    stream.scratch(100)
    device.budget.mark_warm()
    for _ in range(3):
        stream.scratch(100)
        device.copy(source, target, stream, "test")
        stream.synchronize()
    assert device.budget.since_warm == 0

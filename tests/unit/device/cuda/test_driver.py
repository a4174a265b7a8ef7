"""Both libraries drive the GPU alike, and each failure says the call, CUDA's words and the fix."""

import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

from edge_runtime.device.cuda import Driver, open_driver
from edge_runtime.errors import DeviceError, DeviceLost
from tests.fakes.cuda_names import CUresult, CUstream_flags
from tests.fakes.gpu import FakeGpu
from tests.fakes.pycuda import PyCuda

SIZE = 1024


def test_says_what_the_gpu_is(library: str, gpu: FakeGpu) -> None:
    gpu.integrated = True
    driver = open_driver(0, library)
    assert (driver.name, driver.index, driver.library) == ("Fake GPU", 0, library)
    assert driver.capability == (8, 7)
    assert driver.integrated is True
    assert driver.total == 64 << 20
    assert driver.free() == (64 << 20, 64 << 20)
    assert driver.priorities() == (0, -5)


@pytest.mark.parametrize(("integrated", "flags"), [(True, 4), (False, 0)])
def test_where_the_two_share_power_the_host_sleeps_while_it_waits(
    library: str, gpu: FakeGpu, integrated: bool, flags: int
) -> None:
    gpu.integrated = integrated
    open_driver(0, library)
    assert gpu.flags == flags
    assert gpu.calls.get("cuDevicePrimaryCtxSetFlags", 0) == integrated


def test_whoever_opened_the_context_first_says_how_it_waits(library: str, gpu: FakeGpu) -> None:
    gpu.integrated = True
    gpu.fail("cuDevicePrimaryCtxSetFlags", CUresult.CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE)
    open_driver(0, library).close()
    gpu.fail("cuDevicePrimaryCtxSetFlags", CUresult.CUDA_ERROR_INVALID_VALUE)
    with pytest.raises(DeviceError, match="cuDevicePrimaryCtxSetFlags says"):
        open_driver(0, library)


def test_bytes_go_in_every_direction(driver: Driver, gpu: FakeGpu) -> None:
    first, second = driver.alloc(SIZE), driver.alloc(SIZE)
    here, _ = driver.alloc_host(SIZE, mapped=False)
    there, seen = driver.alloc_host(SIZE, mapped=True)
    assert seen == there
    stream = driver.stream()
    values = np.arange(SIZE, dtype=np.uint8)
    gpu.array(here, (SIZE,), np.uint8)[:] = values
    driver.copy(first, here, SIZE, stream)
    driver.copy(second, first, SIZE, stream)
    driver.fill(second + 4, 2, stream)
    driver.copy(there, second, SIZE, stream)
    driver.copy(here, there + SIZE // 2, 8, stream)
    driver.synchronize(stream)
    values[4:6] = 0
    assert np.array_equal(gpu.array(there, (SIZE,), np.uint8), values)
    assert np.array_equal(gpu.array(here, (8,), np.uint8), values[SIZE // 2 : SIZE // 2 + 8])
    for pointer in (first, second):
        driver.release(pointer)
    for pointer in (here, there):
        driver.release_host(pointer)
    driver.release_stream(stream)
    driver.close()
    gpu.check_released()


@pytest.mark.parametrize("priority", [0, -3])
def test_an_ordered_stream_and_the_default_one_wait_for_each_other(
    driver: Driver, gpu: FakeGpu, priority: int
) -> None:
    stream = driver.stream(priority, ordered=True)
    assert gpu.streams[stream].flags == CUstream_flags.CU_STREAM_DEFAULT
    driver.release_stream(stream)
    assert gpu.streams == {}


def test_a_stream_with_a_priority_does_all_of_it_too(driver: Driver, gpu: FakeGpu) -> None:
    stream = driver.stream(-3)
    assert gpu.streams[stream].priority == -3
    assert gpu.streams[stream].flags == 1  # it does not wait for the default stream
    pointer = driver.alloc(SIZE)
    host, _ = driver.alloc_host(SIZE, mapped=False)
    driver.fill(pointer, SIZE, stream)
    driver.copy(host, pointer, SIZE, stream)
    driver.synchronize(stream)
    assert not gpu.array(host, (SIZE,), np.uint8).any()
    driver.release_stream(stream)
    assert gpu.streams == {}


def test_events_take_the_time(driver: Driver, gpu: FakeGpu) -> None:
    gpu.deferred = True
    stream = driver.stream()
    earlier, later = driver.event(), driver.event()
    driver.record(earlier, stream)
    gpu.launch(stream, lambda: None, seconds=0.25)
    driver.record(later, stream)
    with pytest.raises(DeviceError, match="not over"):
        driver.elapsed(earlier, later)
    driver.synchronize(stream)
    assert driver.elapsed(earlier, later) == pytest.approx(0.25)
    driver.release_event(earlier)
    with pytest.raises(DeviceError, match="cuEventElapsedTime says CUDA_ERROR_INVALID_HANDLE"):
        driver.elapsed(earlier, later)


def test_the_context_is_set_once_in_each_thread(driver: Driver, gpu: FakeGpu) -> None:
    stream = driver.stream()
    before = gpu.calls["cuCtxSetCurrent"]
    seen: list[Any] = []

    def work() -> None:
        with driver.current():
            pass
        pointer = driver.alloc(SIZE)
        driver.fill(pointer, SIZE, stream)
        driver.synchronize(stream)
        seen.append(gpu.array(pointer, (SIZE,), np.uint8).any())
        driver.release(pointer)
        seen.append(gpu.stack())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    driver.synchronize(stream)
    assert seen == [False, [0xC0]]
    assert gpu.calls["cuCtxSetCurrent"] == before + 1


def test_any_thread_may_close(driver: Driver, gpu: FakeGpu) -> None:
    stream = driver.stream()
    thread = threading.Thread(target=lambda: (driver.release_stream(stream), driver.close()))
    thread.start()
    thread.join()
    gpu.check_released()


@pytest.mark.parametrize(
    ("call", "kind"), [("cuMemAlloc", "device"), ("cuMemHostAlloc", "page-locked")]
)
def test_out_of_memory_says_what_is_free(
    driver: Driver, gpu: FakeGpu, call: str, kind: str
) -> None:
    held = driver.alloc(1 << 20)
    gpu.fail(call, CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    ask = driver.alloc if kind == "device" else partial(driver.alloc_host, mapped=True)
    with pytest.raises(DeviceError) as caught:
        ask(5000)
    said = str(caught.value)
    for fact in (f"no 5000 bytes of {kind}", call, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"):
        assert fact in said
    assert f"{63 << 20} of {64 << 20} are free" in said
    assert "memory_mb" in caught.value.fix
    assert type(caught.value) is DeviceError
    driver.release(held)


def test_too_much_is_refused(driver: Driver) -> None:
    with pytest.raises(DeviceError, match=f"no {65 << 20} bytes of device memory"):
        driver.alloc(65 << 20)


@pytest.mark.parametrize(
    ("call", "act"),
    [
        ("cuMemGetInfo", lambda driver: driver.free()),
        ("cuMemAlloc", lambda driver: driver.alloc(1)),
        ("cuMemHostAlloc", lambda driver: driver.alloc_host(1, mapped=False)),
        ("cuStreamCreateWithPriority", lambda driver: driver.stream()),
        ("cuStreamCreateWithPriority", lambda driver: driver.stream(-1)),
        ("cuEventCreate", lambda driver: driver.event()),
        ("cuDevicePrimaryCtxRelease", lambda driver: driver.close()),
    ],
)
def test_every_status_is_an_error(driver: Driver, gpu: FakeGpu, call: str, act: Any) -> None:
    gpu.fail(call, CUresult.CUDA_ERROR_INVALID_VALUE)
    with pytest.raises(DeviceError, match="CUDA_ERROR_INVALID_VALUE, invalid argument") as caught:
        act(driver)
    assert call in str(caught.value)
    assert caught.value.fix
    act(driver)


@pytest.mark.parametrize(
    ("call", "act"),
    [
        ("cuMemFree", lambda driver, made: driver.release(made["memory"])),
        ("cuMemFreeHost", lambda driver, made: driver.release_host(made["host"])),
        ("cuStreamSynchronize", lambda driver, made: driver.synchronize(made["stream"])),
        ("cuStreamSynchronize", lambda driver, made: driver.synchronize(made["urgent"])),
        ("cuStreamDestroy", lambda driver, made: driver.release_stream(made["urgent"])),
        ("cuMemsetD8Async", lambda driver, made: driver.fill(made["memory"], 8, made["stream"])),
        ("cuMemsetD8Async", lambda driver, made: driver.fill(made["memory"], 8, made["urgent"])),
        (
            "cuMemcpy2DAsync",
            lambda driver, made: driver.copy_rows(
                made["memory"], made["memory"] + 2, 4, 2, 2, made["stream"]
            ),
        ),
        (
            "cuMemcpyAsync",
            lambda driver, made: driver.copy(made["memory"], made["host"], 8, made["urgent"]),
        ),
        (
            "cuMemcpy",
            lambda driver, made: driver.copy(made["memory"], made["host"], 8, made["stream"]),
        ),
        ("cuEventRecord", lambda driver, made: driver.record(made["event"], made["stream"])),
        ("cuEventDestroy", lambda driver, made: driver.release_event(made["event"])),
    ],
)
def test_a_fault_is_a_lost_device(driver: Driver, gpu: FakeGpu, call: str, act: Any) -> None:
    made = {
        "memory": driver.alloc(SIZE),
        "host": driver.alloc_host(SIZE, mapped=False)[0],
        "stream": driver.stream(),
        "urgent": driver.stream(-1),
        "event": driver.event(),
    }
    gpu.fail("cuMemcpyAsync" if call == "cuMemcpy" else call, CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
    with pytest.raises(DeviceLost, match="CUDA_ERROR_ILLEGAL_ADDRESS, an illegal memory") as lost:
        act(driver, made)
    assert call in str(lost.value)
    assert lost.value.code == "device_lost"
    assert "journalctl -k" in lost.value.fix


def test_memory_that_cannot_be_mapped_is_released(driver: Driver, gpu: FakeGpu) -> None:
    gpu.fail("cuMemHostGetDevicePointer", CUresult.CUDA_ERROR_INVALID_VALUE)
    with pytest.raises(DeviceError, match="cuMemHostGetDevicePointer says"):
        driver.alloc_host(SIZE, mapped=True)
    assert all(each.freed for each in gpu.memory)


def test_what_pycuda_says_in_other_words_is_passed_on(
    gpu: FakeGpu, pycuda_fake: PyCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = open_driver(library="pycuda")

    def mem_alloc(size: int) -> None:
        raise pycuda_fake.Error("a sentence of PyCUDA's own")

    monkeypatch.setattr(driver._pycuda, "mem_alloc", mem_alloc)  # type: ignore[attr-defined]
    with pytest.raises(DeviceError, match="no 16 bytes of device memory: a sentence of PyCUDA's"):
        driver.alloc(16)

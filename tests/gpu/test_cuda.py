"""The CUDA device on a real GPU: what a fake of the driver can only assume."""

import importlib.util
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from edge_runtime.device.cuda import open_driver, present
from edge_runtime.device.cuda.budget import Budget
from edge_runtime.device.cuda.device import CudaDevice
from edge_runtime.device.graph import CudaGraph
from edge_runtime.errors import DeviceError, DeviceLost

PACKAGES = {"cuda-bindings": "cuda", "pycuda": "pycuda"}
MEBI = 1 << 20


@pytest.fixture(params=PACKAGES)
def library(request: pytest.FixtureRequest) -> str:
    if not present():
        pytest.skip("no NVIDIA GPU on this machine")
    if importlib.util.find_spec(PACKAGES[request.param]) is None:
        pytest.skip(f"{request.param} is not installed")
    return str(request.param)


@pytest.fixture(params=[0, -1], ids=["usual", "urgent"])
def device(request: pytest.FixtureRequest, library: str) -> Iterator[CudaDevice]:
    made = CudaDevice(open_driver(0, library), budget=Budget(), priority=request.param)
    yield made
    made.budget.check_integrity()
    made.close()


def test_memory_is_zeroed_and_bytes_go_in_every_direction(device: CudaDevice) -> None:
    size = MEBI // 4
    source, target = (device.alloc((size,), np.float32, "pinned") for _ in range(2))
    mapped = device.alloc((size,), np.float32, "mapped")
    first, second = (device.alloc((size,), np.float32) for _ in range(2))
    stream = device.stream()
    target.host[:] = -1.0
    device.copy(first, target, stream, "down")
    stream.synchronize()
    assert not target.host.any()
    source.host[:] = np.arange(size)
    device.copy(source, first, stream, "up")
    device.copy(first, second, stream, "across")
    device.copy(second, mapped, stream, "down")
    device.copy(mapped, target, stream, "host")
    stream.synchronize()
    assert np.array_equal(mapped.host, source.host)
    assert np.array_equal(target.host, source.host)


def test_columns_are_copied_within_each_row(device: CudaDevice) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(2, 6)
    source, there = device.alloc((2, 6), np.float32, "pinned"), device.alloc((2, 6), np.float32)
    source.host[:] = rows
    stream = device.stream()
    device.copy(source, there, stream, "up")
    device.copy_columns(there, 4, 1, 2, stream, "rows")
    device.copy(there, source, stream, "down")
    stream.synchronize()
    rows[:, 1:3] = rows[:, 4:6].copy()
    np.testing.assert_array_equal(source.host, rows)


def test_audio_is_staged_from_pinned_and_other_memory(device: CudaDevice) -> None:
    ring = device.alloc((1000,), np.float32, "pinned")
    ring.host[:] = np.arange(1000)
    row = device.alloc((2, 2000), np.float32).view((2000,), 2000)
    out = device.alloc((2000,), np.float32, "pinned")
    stream = device.stream()
    for start in (900, 300):
        device.stage([ring.host[start:], np.ones(50, np.float32)], row, stream)
        device.copy(row, out, stream, "down")
        stream.synchronize()
        rest = 1000 - start
        assert np.array_equal(out.host[:rest], np.arange(start, 1000))
        assert (out.host[rest : rest + 50] == 1.0).all()
        assert not out.host[rest + 50 :].any()


def test_one_kernel_gathers_audio(device: CudaDevice) -> None:
    if not device.gather():
        pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc")
    ring = device.alloc((100_000,), np.float32, "mapped")
    ring.host[:] = np.arange(100_000)
    row = device.alloc((2, 128_001), np.float32).view((128_001,), 128_001)
    out = device.alloc((128_001,), np.float32, "pinned")
    stream = device.stream()

    def staged(start: int, end: int) -> None:
        device.stage([ring.host[start:], ring.host[:end]], row, stream)

    for start, end in ((30_001, 17), (99_999, 5)):
        graph = device.capture(lambda start=start, end=end: staged(start, end), stream)
        assert isinstance(graph, CudaGraph)
        assert graph.nodes == {"kernel": 1}
        for run in (lambda start=start, end=end: staged(start, end), graph.replay):
            run()
            device.copy(row, out, stream, "down")
            stream.synchronize()
            rest = 100_000 - start
            assert np.array_equal(out.host[:rest], np.arange(start, 100_000))
            assert np.array_equal(out.host[rest : rest + end], np.arange(end))
            assert not out.host[rest + end :].any()


def test_what_the_context_takes_is_counted(device: CudaDevice) -> None:
    if device.driver.integrated or importlib.util.find_spec("cuda.bindings.nvml") is None:
        pytest.skip("nobody says here what is free before the context is opened")
    # The process may have had it from an earlier test.
    assert 0 <= device.driver.opening < 4096 * MEBI
    assert device.budget.by_kind["driver"] == device.driver.opening
    with device.outlay.counted():
        device.alloc((512 * MEBI,), np.uint8)
    assert device.budget.by_kind["driver"] < device.driver.opening + 64 * MEBI


def test_a_graph_is_captured_replayed_and_updated(device: CudaDevice) -> None:
    stream = device.stream()
    source, target = (device.alloc((4096,), np.float32, "pinned") for _ in range(2))
    other = device.alloc((4096,), np.float32, "pinned")
    between = device.alloc((5000,), np.float32)

    def call() -> None:
        device.stage([source.host], between, stream)
        device.copy(between.view((4096,)), target, stream, "down")

    def again() -> None:
        device.stage([other.host], between, stream)
        device.copy(between.view((4096,)), target, stream, "down")

    graph = device.capture(call, stream)
    assert isinstance(graph, CudaGraph)
    assert graph.nodes == {"memcpy": 2, "memset": 1}
    stream.synchronize()
    assert not target.host.any()
    for value in (1.0, 2.0):
        source.host[:] = value
        graph.replay()
        stream.synchronize()
        assert (target.host == value).all()
    assert stream.counters.copied == {"audio": 32768, "down": 32768}
    other.host[:] = 3.0
    assert graph.update(again)
    graph.replay()
    stream.synchronize()
    assert (target.host == 3.0).all()
    assert not graph.update(lambda: device.copy(source, target, stream, "host"))
    graph.replay()
    stream.synchronize()
    assert (target.host == 2.0).all()
    graph.close()


def test_a_failed_capture_leaves_the_stream(device: CudaDevice) -> None:
    stream = device.stream()
    source, target = (device.alloc((64,), np.float32, "pinned") for _ in range(2))
    source.host[:] = 5.0

    def allocates() -> None:
        device.copy(source, target, stream, "host")
        device.alloc((MEBI,), np.uint8)

    def raises() -> None:
        device.copy(source, target, stream, "host")
        raise RuntimeError("on purpose")

    for call in (allocates, raises):
        with pytest.raises(DeviceError, match="could not be captured") as caught:
            device.capture(call, stream)
        assert not isinstance(caught.value, DeviceLost)
        stream.synchronize()
        assert not target.host.any()
    device.capture(lambda: device.copy(source, target, stream, "host"), stream).replay()
    stream.synchronize()
    assert (target.host == 5.0).all()


def test_other_threads_allocate_while_one_captures(device: CudaDevice) -> None:
    stream = device.stream()
    source, target = (device.alloc((64,), np.float32, "pinned") for _ in range(2))
    source.host[:] = 5.0

    def allocate() -> None:
        device.alloc((MEBI,), np.float32)
        device.reclaim()

    def call() -> None:
        thread = threading.Thread(target=allocate)
        thread.start()
        thread.join()
        device.copy(source, target, stream, "host")

    device.capture(call, stream).replay()
    stream.synchronize()
    assert (target.host == 5.0).all()


def test_marks_take_time(device: CudaDevice) -> None:
    stream = device.stream()
    source = device.alloc((64 * MEBI,), np.uint8, "pinned")
    target = device.alloc((64 * MEBI,), np.uint8)
    start = stream.mark()
    device.copy(source, target, stream, "up")
    end = stream.mark()
    with pytest.raises(DeviceError, match="not over"):
        end.since(start)
    stream.synchronize()
    # Between what no bus does and what any does: 1 TB/s and 100 MB/s.
    assert 64e-6 < end.since(start) < 0.64


def test_out_of_memory_is_said_and_survived(device: CudaDevice) -> None:
    free, total = device.driver.free()
    assert 0 < free <= total
    with pytest.raises(DeviceError, match=r"no \d+ bytes of device memory, .* are free") as caught:
        device.alloc((total * 2,), np.uint8)
    assert "CUDA_ERROR_OUT_OF_MEMORY" in str(caught.value)
    assert device.budget.by_kind["device"] == 0
    device.alloc((MEBI,), np.uint8)


def test_memory_comes_back(device: CudaDevice) -> None:
    device.alloc((MEBI,), np.uint8)
    device.reclaim()
    before, _ = device.driver.free()
    held = device.alloc((512 * MEBI,), np.uint8)
    assert before - device.driver.free()[0] >= 512 * MEBI
    del held
    device.reclaim()
    assert before - device.driver.free()[0] < 64 * MEBI


def test_each_thread_finds_the_context(device: CudaDevice) -> None:
    found: list[bool] = []

    def lane() -> None:
        stream = device.stream()
        source, target = (device.alloc((64,), np.float32, "pinned") for _ in range(2))
        source.host[:] = 7.0
        device.capture(lambda: device.copy(source, target, stream, "host"), stream).replay()
        stream.synchronize()
        found.append(bool((target.host == 7.0).all()))

    threads = [threading.Thread(target=lane) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4

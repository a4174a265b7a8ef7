"""Streams, copies, staging and marks do what the device line says, and count it."""

import threading
from typing import Any

import numpy as np
import pytest

from edge_runtime.device.base import Device
from edge_runtime.device.cuda import Driver, open_driver
from edge_runtime.device.cuda.device import CudaDevice
from edge_runtime.device.cuda.memory import CudaBuffer
from edge_runtime.device.onnx import HostBuffer, HostMark, HostStream
from edge_runtime.errors import DeviceError, DeviceLost
from tests.fakes.cuda_names import CUresult
from tests.fakes.gpu import FakeGpu, Fault


def read(device: CudaDevice, buffer: CudaBuffer) -> list[Any]:
    """What lies in a buffer of the device, by the way of the product's own copy."""
    stream = device.stream()
    target = device.alloc(buffer.shape, buffer.dtype, "pinned")
    device.copy(buffer, target, stream, "read")
    stream.synchronize()
    found: list[Any] = target.host.tolist()
    return found


def ramp(size: int, start: float = 1.0) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.arange(start, start + size, dtype=np.float32)


class Whole(CudaDevice):
    """With a `load`, as a subclass has it."""

    def load(self, plan: Any) -> Any:
        raise NotImplementedError


def test_is_a_device(driver: Driver) -> None:
    device: Device = Whole(driver, lanes=3)
    assert (device.name, device.integrated, device.lanes) == ("Fake GPU", False, 3)
    device.close()


def test_copies_when_the_stream_gets_there(device: CudaDevice, gpu: FakeGpu) -> None:
    gpu.deferred = True
    source, target = (device.alloc((3, 2), np.float16, "pinned") for _ in range(2))
    between = device.alloc((2, 3), np.float16)
    stream = device.stream()
    source.host[:] = 1.5
    device.copy(source, between, stream, "up")
    device.copy(between, target, stream, "down")
    assert not target.host.any()
    stream.synchronize()
    assert target.host.tolist() == [[1.5, 1.5]] * 3
    assert stream.counters.copied == {"up": 12, "down": 12}
    assert stream.counters.waits == 1


def test_copies_that_do_not_fit_are_refused(device: CudaDevice, gpu: FakeGpu) -> None:
    source = device.alloc((4,), np.float32, "pinned")
    stream = device.stream()
    for target in (device.alloc((4,), np.int32), device.alloc((5,), np.float32)):
        with pytest.raises(DeviceError, match=r"float32 of \(4,\) cannot be copied \(tokens\)"):
            device.copy(source, target, stream, "tokens")
    with pytest.raises(DeviceError, match="a HostStream is not a stream of a GPU"):
        device.copy(source, source, HostStream(), "tokens")
    assert stream.counters.copied == {}
    device.copy(source.view((0,)), device.alloc((0,), np.float32), stream, "none")
    assert "cuMemcpyAsync" not in gpu.calls


@pytest.mark.parametrize(
    ("source", "target", "count"), [(0, 2, 3), (3, 2, 2), (4, 0, 3), (-1, 3, 1)]
)
def test_columns_that_overlap_or_leave_their_buffer_are_refused(
    device: CudaDevice, gpu: FakeGpu, source: int, target: int, count: int
) -> None:
    buffer, stream = device.alloc((2, 6), np.float32), device.stream()
    with pytest.raises(DeviceError, match=rf"{count} columns at {source} of \(2, 6\) cannot be"):
        device.copy_columns(buffer, source, target, count, stream, "rows")
    assert "cuMemcpy2DAsync" not in gpu.calls
    device.copy_columns(buffer, 0, 3, 3, stream, "rows")
    assert stream.counters.copied == {"rows": 24}


def test_memory_of_the_host_is_copied_from(device: CudaDevice) -> None:
    source, target = HostBuffer(ramp(3)), device.alloc((3,), np.float32)
    device.copy(source, target, device.stream(), "weights")
    assert read(device, target) == [1.0, 2.0, 3.0]


def test_stages_pieces_and_zeros_after(device: CudaDevice, gpu: FakeGpu) -> None:
    ring = device.alloc((10,), np.float32, "pinned")
    ring.host[:] = ramp(10)
    target = device.alloc((2, 12), np.float32)
    stream = device.stream()
    row = target.view((12,), 12)
    gpu.deferred = True
    device.stage([ring.host[7:], ring.host[:4]], row, stream)
    stream.synchronize()
    assert read(device, target) == [[0.0] * 12, [8.0, 9.0, 10.0, 1.0, 2.0, 3.0, 4.0] + [0.0] * 5]
    assert stream.counters.copied == {"audio": 28}
    # A shorter piece later: what the longer one left is zeroed.
    device.stage([ring.host[:1]], row, stream)
    stream.synchronize()
    assert read(device, row) == [1.0] + [0.0] * 11
    assert stream.counters.copied == {"audio": 32}


def test_pinned_pieces_are_read_when_the_stream_gets_there(
    device: CudaDevice, gpu: FakeGpu
) -> None:
    ring = device.alloc((2,), np.float32, "pinned")
    target = device.alloc((2,), np.float32)
    stream = device.stream()
    gpu.deferred = True
    pageable = np.array([1.0], np.float32)
    ring.host[:] = 1.0
    device.stage([ring.host[:1], pageable], target, stream)
    ring.host[:] = 2.0  # against the rule: it must stay as it is
    pageable[:] = 2.0  # pageable memory was read before the call returned
    stream.synchronize()
    assert read(device, target) == [2.0, 1.0]


def test_stages_nothing_and_everything(device: CudaDevice) -> None:
    target = device.alloc((3,), np.float32)
    stream = device.stream()
    device.stage([ramp(3), np.zeros(0, np.float32)], target, stream)
    assert read(device, target) == [1.0, 2.0, 3.0]
    device.stage([], target, stream)
    assert read(device, target) == [0.0, 0.0, 0.0]
    assert stream.counters.copied == {"audio": 12}


@pytest.mark.parametrize(
    ("pieces", "said"),
    [
        ([np.zeros(2, np.float64)], "a piece of float64.*contiguous float32"),
        ([np.zeros(2, np.int16)], "a piece of int16"),
        ([np.zeros(4, np.float32)[::2]], r"strides \(8,\)"),
        ([np.zeros(4, np.float32)[::-1]], r"strides \(-4,\)"),
        ([np.zeros(3, np.float32), np.zeros(2, np.float32)], "20 bytes .* do not fit float32"),
    ],
)
def test_pieces_that_cannot_be_staged(
    device: CudaDevice, gpu: FakeGpu, pieces: Any, said: str
) -> None:
    target = device.alloc((4,), np.float32)
    stream = device.stream()
    with pytest.raises(DeviceError, match=said):
        device.stage([np.zeros(1, np.float32)[:0], *pieces], target, stream)
    assert "cuMemcpyAsync" not in gpu.calls
    assert stream.counters.copied == {}


def test_audio_is_staged_as_float32_only(device: CudaDevice) -> None:
    target = device.alloc((4,), np.int32)
    with pytest.raises(DeviceError, match="do not fit int32"):
        device.stage([np.zeros(2, np.float32)], target, device.stream())


@pytest.mark.parametrize(
    ("asked", "given"), [(0, 0), (1, 0), (-1, -1), (-5, -5), (-100, -5), (7, 0)]
)
def test_priorities_are_what_the_gpu_has(
    library: str, gpu: FakeGpu, asked: int, given: int
) -> None:
    device = CudaDevice(open_driver(0, library), priority=asked)
    stream = device.stream()
    assert stream.priority == given
    assert gpu.streams[stream.handle].priority == given
    device.close()
    gpu.check_released()


def test_marks_take_the_time_between(device: CudaDevice, gpu: FakeGpu) -> None:
    gpu.deferred = True
    stream = device.stream()
    start = stream.mark()
    gpu.launch(stream.handle, lambda: None, seconds=0.5)
    middle = stream.mark()
    gpu.launch(stream.handle, lambda: None, seconds=0.25)
    end = stream.mark()
    with pytest.raises(DeviceError, match=r"not over\. Synchronise"):
        end.since(start)
    stream.synchronize()
    assert middle.since(start) == pytest.approx(0.5)
    assert end.since(start) == pytest.approx(0.75)
    with pytest.raises(DeviceError, match="another device"):
        end.since(HostMark())


def test_events_of_dropped_marks_are_used_again(device: CudaDevice, gpu: FakeGpu) -> None:
    stream = device.stream()
    for _ in range(5):
        start, end = stream.mark(), stream.mark()
        assert end.since(start) == 0.0
    # The first two, and two more while those are still held.
    assert gpu.calls["cuEventCreate"] <= 4


def test_scratch_is_shared_and_grows_beside_what_is_in_use(
    device: CudaDevice, gpu: FakeGpu
) -> None:
    stream = device.stream()
    small = stream.scratch(100)
    assert stream.scratch(50) is small
    large = stream.scratch(1000)
    assert large.nbytes >= 1000
    assert large.pointer % 256 == 0
    device.reclaim()
    assert not any(each.freed for each in gpu.memory)  # a call may hold the small one
    assert device.stream().scratch(100).pointer != large.pointer
    assert device.budget.by_kind["scratch"] == 256 + 1024 + 256
    with pytest.raises(DeviceError, match="1001 bytes of scratch"):
        device.capture(lambda: stream.scratch(1001), stream)
    bare = device.stream()
    with pytest.raises(DeviceError, match=r"1 bytes of scratch .* there are 0\. Bind calls"):
        device.capture(lambda: bare.scratch(1), bare)
    device.capture(lambda: None, stream)
    assert stream.scratch(1000) is large
    larger = stream.scratch(1001)
    del small
    device.reclaim()
    assert larger.pointer != large.pointer  # what graphs hold is left where it is
    assert [each.freed for each in gpu.memory] == [True, False, False, False]


def test_a_fault_is_raised_where_it_is_waited_for(device: CudaDevice, gpu: FakeGpu) -> None:
    gpu.deferred = True
    stream = device.stream()
    target = device.alloc((4,), np.float32)

    def kernel() -> None:
        raise Fault(CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)

    gpu.launch(stream.handle, kernel)
    with pytest.raises(DeviceLost, match="cuStreamSynchronize says CUDA_ERROR_ILLEGAL_ADDRESS"):
        stream.synchronize()
    with pytest.raises(DeviceLost, match="could not be zeroed"):
        device.stage([], target, stream)
    with pytest.raises(DeviceLost, match="no 256 bytes of device memory"):
        device.alloc((1,), np.uint8)


def test_a_lost_device_can_be_closed(device: CudaDevice, gpu: FakeGpu) -> None:
    stream = device.stream()
    stream.mark()
    stream.scratch(10)
    device.capture(lambda: None, stream)
    held = device.alloc((4,), np.float32)
    gpu.lose()
    device.close()
    device.close()
    assert device.budget.taken == 0
    with pytest.raises(DeviceError, match="closed"):
        _ = held.pointer


def test_two_threads_work_on_two_streams(device: CudaDevice, gpu: FakeGpu) -> None:
    results: dict[int, list[float]] = {}

    def lane(number: int) -> None:
        stream = device.stream()
        source = device.alloc((64,), np.float32, "pinned")
        there = device.alloc((64,), np.float32)
        target = device.alloc((64,), np.float32, "pinned")
        graph = device.capture(lambda: device.copy(there, target, stream, "down"), stream)
        for turn in range(20):
            source.host[:] = number * 100 + turn
            device.copy(source, there, stream, "up")
            graph.replay()
            stream.synchronize()
            assert (target.host == number * 100 + turn).all()
        results[number] = [stream.counters.copied["down"], stream.counters.waits]

    threads = [threading.Thread(target=lane, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: [20 * 256, 20] for number in range(4)}

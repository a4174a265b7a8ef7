"""What is captured is what is replayed; a capture that fails leaves the stream as it was."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from edge_runtime.device.cuda import Driver
from edge_runtime.device.cuda.device import CudaDevice, CudaStream
from edge_runtime.device.graph import CallGraph, CudaGraph
from edge_runtime.errors import DeviceError, DeviceLost
from tests.fakes.cuda_names import CUresult, CUstreamCaptureMode
from tests.fakes.gpu import FakeGpu


class Doubling:
    """A kernel in place, between a copy in and a copy out: what a lane's step looks like."""

    name = "doubling"

    def __init__(self, device: CudaDevice, gpu: FakeGpu, stream: CudaStream, size: int = 4):
        self.device, self.gpu, self.stream = device, gpu, stream
        self.source = device.alloc((size,), np.float32, "pinned")
        self.there = device.alloc((size,), np.float32)
        self.target = device.alloc((size,), np.float32, "pinned")

    def __call__(self) -> None:
        self.device.copy(self.source, self.there, self.stream, "up")
        array = self.gpu.array(self.there.pointer, self.there.shape, np.float32)

        def kernel() -> None:
            array[:] *= 2

        self.gpu.launch(self.stream.handle, kernel, "double")
        self.device.copy(self.there, self.target, self.stream, "down")


@pytest.fixture
def stream(device: CudaDevice) -> CudaStream:
    return device.stream()


@pytest.fixture
def doubling(device: CudaDevice, gpu: FakeGpu, stream: CudaStream) -> Iterator[Doubling]:
    made = Doubling(device, gpu, stream)
    yield made
    del made.source, made.target  # arrays of the host keep their memory


def captured(device: CudaDevice, call: object, stream: CudaStream) -> CudaGraph:
    graph = device.capture(call, stream)  # type: ignore[arg-type]
    assert isinstance(graph, CudaGraph)
    return graph


def usable(doubling: Doubling) -> bool:
    """Whether its stream still does what it is told, captures included."""
    doubling.source.host[:] = 21.0
    graph = captured(doubling.device, doubling, doubling.stream)
    graph.replay()
    doubling.stream.synchronize()
    graph.close()
    return bool((doubling.target.host == 42.0).all())


def test_capturing_runs_nothing_and_replaying_all(
    device: CudaDevice, gpu: FakeGpu, doubling: Doubling
) -> None:
    gpu.deferred = True
    stream = doubling.stream
    doubling.source.host[:] = 1.0
    graph = captured(device, doubling, stream)
    stream.synchronize()
    assert not doubling.target.host.any()
    assert stream.counters.copied == {}
    for value in (3.0, 5.0):
        doubling.source.host[:] = value
        graph.replay()
        assert not (doubling.target.host == 2 * value).any()
        stream.synchronize()
        assert (doubling.target.host == 2 * value).all()
    assert stream.counters.copied == {"up": 32, "down": 32}
    assert stream.counters.waits == 3


def test_a_graph_says_what_is_in_it(device: CudaDevice, doubling: Doubling) -> None:
    graph = captured(device, doubling, doubling.stream)
    assert graph.nodes == {"memcpy": 2, "kernel": 1}
    assert (graph.kernels, graph.copies) == (1, 2)
    assert captured(device, lambda: None, doubling.stream).nodes == {}


def test_other_threads_do_not_disturb(device: CudaDevice, gpu: FakeGpu, doubling: Doubling) -> None:
    """A global capture would fail here; a relaxed one would let through the test after this."""

    def call() -> None:
        mode = gpu.streams[doubling.stream.handle].capture.mode  # type: ignore[union-attr]
        assert mode is CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        other = threading.Thread(target=lambda: device.alloc((64,), np.float32))
        other.start()
        other.join()
        doubling()

    assert captured(device, call, doubling.stream).kernels == 1


def test_what_a_graph_would_leave_out_fails(device: CudaDevice, doubling: Doubling) -> None:
    def call() -> None:
        device.alloc((64,), np.float32)

    with pytest.raises(DeviceError, match=r"<locals>\.call could not be captured: no 256 bytes"):
        device.capture(call, doubling.stream)
    assert usable(doubling)


@pytest.mark.parametrize("act", ["synchronize", "mark"])
def test_a_capture_is_not_waited_for(device: CudaDevice, doubling: Doubling, act: str) -> None:
    with pytest.raises(DeviceError, match="while its work is captured"):
        device.capture(getattr(doubling.stream, act), doubling.stream)
    assert doubling.stream.counters.waits == 0
    assert usable(doubling)


def test_staging_is_captured_with_its_bytes_and_its_pieces(
    device: CudaDevice, stream: CudaStream
) -> None:
    target = device.alloc((4,), np.float32)
    out = device.alloc((4,), np.float32, "pinned")

    ring = device.alloc((3,), np.float32, "pinned")
    pieces = [ring.host[:2]]

    def call() -> None:
        device.stage(pieces, target, stream)
        device.copy(target, out, stream, "down")

    graph = captured(device, call, stream)
    assert graph.nodes == {"memcpy": 2, "memset": 1}
    pieces.clear()
    ring.host[:] = 7.0
    del ring
    device.reclaim()  # the graph reads there: it holds the memory
    graph.replay()
    graph.replay()
    stream.synchronize()
    assert out.host.tolist() == [7.0, 7.0, 0.0, 0.0]
    assert stream.counters.copied == {"audio": 16, "down": 32}
    graph.close()
    device.reclaim()
    assert device.budget.by_kind["pinned"] == 256


def test_an_update_keeps_the_executable(
    device: CudaDevice, gpu: FakeGpu, doubling: Doubling
) -> None:
    graph = captured(device, doubling, doubling.stream)
    other = Doubling(device, gpu, doubling.stream)
    other.source.host[:] = 4.0
    assert graph.update(other) is True
    graph.replay()
    doubling.stream.synchronize()
    assert (other.target.host == 8.0).all()
    assert not doubling.target.host.any()
    assert gpu.calls["cuGraphInstantiate"] == 1


def test_an_update_of_another_shape_instantiates_anew(
    device: CudaDevice, gpu: FakeGpu, doubling: Doubling
) -> None:
    graph = captured(device, doubling, doubling.stream)
    doubling.source.host[:] = 3.0

    def twice() -> None:
        doubling()
        gpu.launch(doubling.stream.handle, lambda: None, "another")

    assert graph.update(twice) is False
    assert graph.kernels == 2
    graph.replay()
    doubling.stream.synchronize()
    assert (doubling.target.host == 6.0).all()
    assert len(gpu.executables) == 1


@pytest.mark.parametrize(
    "call", ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphExecUpdate", "cuGraphGetNodes"]
)
def test_a_failed_update_leaves_the_graph(
    device: CudaDevice, gpu: FakeGpu, doubling: Doubling, call: str
) -> None:
    graph = captured(device, doubling, doubling.stream)
    gpu.fail(call, CUresult.CUDA_ERROR_UNKNOWN)
    with pytest.raises(DeviceError, match=f"{call} says CUDA_ERROR_UNKNOWN"):
        graph.update(lambda: None)
    assert graph.nodes == {"memcpy": 2, "kernel": 1}
    doubling.source.host[:] = 1.0
    graph.replay()
    doubling.stream.synchronize()
    assert (doubling.target.host == 2.0).all()
    assert gpu.graphs == {}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("cuStreamBeginCapture", "doubling could not be captured"),
        ("cuStreamEndCapture", "doubling could not be captured"),
        ("cuGraphGetNodes", "the GPU failed"),
        ("cuGraphNodeGetType", "the GPU failed"),
        ("cuGraphInstantiate", "the graph of doubling could not be made"),
        ("cuGraphUpload", "the graph of doubling could not be made"),
    ],
)
def test_a_failed_capture(
    device: CudaDevice, gpu: FakeGpu, doubling: Doubling, call: str, said: str
) -> None:
    gpu.fail(call, CUresult.CUDA_ERROR_UNKNOWN)
    with pytest.raises(DeviceError, match=f"{said}: {call} says CUDA_ERROR_UNKNOWN"):
        device.capture(doubling, doubling.stream)
    assert gpu.graphs == gpu.executables == {}
    assert usable(doubling)


@pytest.mark.parametrize("call", ["cuGraphInstantiate", "cuGraphUpload"])
def test_no_memory_for_a_graph(
    device: CudaDevice, gpu: FakeGpu, doubling: Doubling, call: str
) -> None:
    gpu.fail(call, CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    with pytest.raises(
        DeviceError, match=rf"could not be made, \d+ of {64 << 20} are free: {call}"
    ):
        device.capture(doubling, doubling.stream)
    assert usable(doubling)


@pytest.mark.parametrize(
    ("raised", "args", "kind", "said"),
    [
        (
            DeviceError,
            ("no tensor 'x'", "Bind it."),
            DeviceError,
            r"no tensor 'x'\. Bind",
        ),
        (DeviceLost, ("gone",), DeviceLost, "captured: gone"),
        (RuntimeError, ("enqueueV3 failed",), DeviceError, "captured: enqueueV3 failed"),
        (KeyboardInterrupt, ("by hand",), KeyboardInterrupt, "^by hand$"),
    ],
)
def test_a_call_that_raises(
    device: CudaDevice,
    gpu: FakeGpu,
    doubling: Doubling,
    raised: type[BaseException],
    args: tuple[str, ...],
    kind: type[BaseException],
    said: str,
) -> None:
    def call() -> None:
        doubling()
        raise raised(*args)

    with pytest.raises(kind, match=said) as caught:
        device.capture(call, doubling.stream)
    assert type(caught.value) is kind
    assert gpu.graphs == {}
    assert usable(doubling)


def test_an_invalidated_capture_ends(device: CudaDevice, gpu: FakeGpu, doubling: Doubling) -> None:
    def call() -> None:
        doubling()
        gpu.streams[doubling.stream.handle].capture.valid = False  # type: ignore[union-attr]

    with pytest.raises(DeviceError, match=r"cuStreamEndCapture says .*CAPTURE_INVALIDATED"):
        device.capture(call, doubling.stream)
    assert usable(doubling)


def test_captures_do_not_nest(device: CudaDevice, doubling: Doubling) -> None:
    with pytest.raises(DeviceError, match="within another capture"):
        device.capture(lambda: device.capture(doubling, doubling.stream), doubling.stream)
    assert usable(doubling)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (CUresult.CUDA_ERROR_LAUNCH_FAILED, DeviceLost),
        (CUresult.CUDA_ERROR_INVALID_VALUE, DeviceError),
    ],
)
def test_a_replay_that_fails(
    device: CudaDevice,
    gpu: FakeGpu,
    doubling: Doubling,
    status: CUresult,
    kind: type[DeviceError],
) -> None:
    graph = captured(device, doubling, doubling.stream)
    gpu.fail("cuGraphLaunch", status)
    with pytest.raises(kind, match=f"graph of doubling did not run: .* {status.name}") as caught:
        graph.replay()
    assert type(caught.value) is kind
    assert doubling.stream.counters.copied == {}


def test_a_closed_graph_is_over(device: CudaDevice, gpu: FakeGpu, doubling: Doubling) -> None:
    graph = captured(device, doubling, doubling.stream)
    graph.close()
    graph.close()
    assert gpu.executables == {}
    with pytest.raises(DeviceError, match="replayed after it was closed"):
        graph.replay()
    with pytest.raises(DeviceError, match="updated after it was closed"):
        graph.update(doubling)


def test_another_thread_may_replay(device: CudaDevice, doubling: Doubling) -> None:
    graph = captured(device, doubling, doubling.stream)
    doubling.source.host[:] = 2.0
    thread = threading.Thread(target=graph.replay)
    thread.start()
    thread.join()
    doubling.stream.synchronize()
    assert (doubling.target.host == 4.0).all()


def test_without_graphs_a_call_is_called(driver: Driver, gpu: FakeGpu) -> None:
    device = CudaDevice(driver, graphs=False)
    doubling = Doubling(device, gpu, device.stream())
    doubling.source.host[:] = 1.0
    graph = device.capture(doubling, doubling.stream)
    assert isinstance(graph, CallGraph)
    assert (graph.nodes, graph.kernels, graph.copies) == ({}, 0, 0)
    assert not doubling.target.host.any()
    graph.replay()
    doubling.stream.synchronize()
    assert (doubling.target.host == 2.0).all()
    assert doubling.stream.counters.copied == {"up": 16, "down": 16}
    graph.close()
    assert "cuStreamBeginCapture" not in gpu.calls
    del doubling
    device.close()

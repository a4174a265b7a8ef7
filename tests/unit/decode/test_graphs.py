"""A lane keeps its most recent graphs, runs what cannot be captured, and says what took long."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from edge_runtime.decode import graphs as room
from edge_runtime.decode.graphs import Graphs, Use
from edge_runtime.device.cuda.device import CudaDevice, CudaStream
from tests.fakes.cuda_names import CUresult
from tests.fakes.gpu import FakeGpu


@pytest.fixture
def device(cuda_device: CudaDevice) -> CudaDevice:
    return cuda_device


@pytest.fixture
def stream(device: CudaDevice) -> CudaStream:
    return device.stream()


class Work:
    """Kernels by name: which were bound, and which ran, in order."""

    def __init__(self, gpu: FakeGpu, stream: CudaStream) -> None:
        self._gpu, self._stream = gpu, stream
        self.bound: list[str] = []
        self.ran: list[str] = []

    def of(self, name: str) -> Callable[[], Callable[[], None]]:
        def bind() -> Callable[[], None]:
            self.bound.append(name)
            return lambda: self._launch(name)

        return bind

    def _launch(self, name: str) -> None:
        self._gpu.launch(self._stream.handle, lambda: self.ran.append(name), name)


@pytest.fixture
def work(gpu: FakeGpu, stream: CudaStream) -> Work:
    return Work(gpu, stream)


def test_what_was_captured_is_found_again(
    device: CudaDevice, stream: CudaStream, work: Work
) -> None:
    graphs = Graphs(device, stream, 4)
    for name in ("a", "b", "a", "a"):
        graphs.get(name, work.of(name)).replay()
    assert work.bound == ["a", "b"]
    assert work.ran == ["a", "b", "a", "a"]
    assert graphs.use == Use(hits=2, misses=2, failed=0)


def test_the_one_longest_unused_goes_when_it_is_over(
    device: CudaDevice, gpu: FakeGpu, stream: CudaStream, work: Work
) -> None:
    gpu.deferred = True
    graphs = Graphs(device, stream, 2)
    for name in ("a", "b", "a"):
        graphs.get(name, work.of(name)).replay()
    assert work.ran == []
    graphs.get("c", work.of("c"))
    assert work.ran == ["a", "b", "a"]
    assert (len(graphs), len(gpu.executables)) == (2, 2)
    graphs.get("a", work.of("a"))
    assert work.bound == ["a", "b", "c"]
    graphs.get("b", work.of("b"))
    assert work.bound == ["a", "b", "c", "b"]
    graphs.close()
    assert (len(graphs), gpu.executables) == (0, {})


def test_what_cannot_be_captured_runs_all_the_same(
    device: CudaDevice, gpu: FakeGpu, stream: CudaStream, work: Work, caplog
) -> None:
    graphs = Graphs(device, stream, 4)
    gpu.fail("cuGraphInstantiate", CUresult.CUDA_ERROR_UNKNOWN)
    with caplog.at_level(logging.WARNING, room.__name__):
        graphs.get("a", work.of("a")).replay()
    assert "no graph for a, it runs as plain calls" in caplog.text
    assert "CUDA_ERROR_UNKNOWN" in caplog.text
    graphs.get("a", work.of("a")).replay()
    assert (work.bound, work.ran) == (["a"], ["a", "a"])
    assert graphs.use == Use(hits=1, misses=1, failed=1)
    assert gpu.executables == {}


@pytest.mark.parametrize(
    ("warm", "seconds", "said"),
    [(True, 0.013, True), (True, 0.012, False), (False, 0.5, False)],
    ids=["slow", "in time", "warming up"],
)
def test_a_slow_one_is_told_once_it_is_warm(
    device: CudaDevice, stream: CudaStream, work: Work, monkeypatch: pytest.MonkeyPatch, caplog,
    warm: bool, seconds: float, said: bool,
) -> None:  # fmt: skip
    clock = iter((0.0, seconds))
    monkeypatch.setattr(room, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    graphs = Graphs(device, stream, 4)
    graphs.warm = warm
    with caplog.at_level(logging.INFO, room.__name__):
        graphs.get("a", work.of("a"))
    told = f"made a in {1e3 * seconds:.1f} ms; 1 of 4 kept, 0 hits, 1 misses, 0 failed"
    assert (told in caplog.text) == said

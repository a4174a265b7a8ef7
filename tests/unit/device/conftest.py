"""A program small enough to reason about: sums, products and a cast."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.device.cuda import open_driver
from edge_runtime.device.cuda.memory import CudaBuffer
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.device.tensorrt import TensorRT, TensorRTDevice
from edge_runtime.engines.export.graph import GraphWriter
from tests.fakes import cuda, tensorrt
from tests.fakes.gpu import FakeGpu


@pytest.fixture
def needs_nvrtc() -> None:
    """Our kernels can be compiled here, for GPUs that are not."""
    if importlib.util.find_spec("cuda") is None:
        pytest.skip("cuda-bindings is not installed: pip install cuda-bindings")
    from cuda.bindings import nvrtc

    try:
        nvrtc.nvrtcVersion()
    except RuntimeError as error:
        pytest.skip(f"NVRTC is not installed (pip install nvidia-cuda-nvrtc): {error}")


@pytest.fixture
def device() -> OnnxDevice:
    return OnnxDevice()


@pytest.fixture(scope="session")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`x` (B, 4) f32, `count` (B) i64 → `twice` (B, 4), `sum` (B), `more` (B) i64."""
    g = GraphWriter("arithmetic")
    x = g.input("x", np.float32, ("B", 4))
    count = g.input("count", np.int64, ("B",))
    g.output(g.add(x, x), "twice", np.float32, ("B", 4))
    g.output(g.op("ReduceSum", x, g.ints(1), keepdims=0), "sum", np.float32, ("B",))
    g.output(g.add(count, g.ints(1)), "more", np.int64, ("B",))
    path = tmp_path_factory.mktemp("plan") / "arithmetic.onnx"
    g.save(path)
    return path


@pytest.fixture
def tensorrt_gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """A GPU that does its work only when it is waited for; TensorRT runs on it."""
    gpu = FakeGpu(deferred=True)
    cuda.install(monkeypatch, gpu)
    tensorrt.connect(monkeypatch, gpu)
    return gpu


@pytest.fixture(params=["tensorrt", "tensorrt_rtx"])
def tensorrt_device(
    request: pytest.FixtureRequest, tensorrt_gpu: FakeGpu
) -> Iterator[TensorRTDevice]:
    version = {"tensorrt": "10.3.0", "tensorrt_rtx": "1.7.1.116"}[request.param]
    driver = open_driver(library="cuda-bindings")
    device = TensorRTDevice(driver, TensorRT(request.param, version, tensorrt))
    yield device
    device.close()
    device.budget.check_integrity()


@pytest.fixture
def engine(plan: Path, tmp_path: Path) -> Callable[..., Path]:
    """A plan of `arithmetic` with one profile for single rows and one for up to eight."""
    several = {"x": [[1, 4], [2, 4], [8, 4]], "count": [[1], [2], [8]]}
    single = {"x": [[1, 4]] * 3, "count": [[1]] * 3}

    def made(name: str = "arithmetic", **options: object) -> Path:
        options.setdefault("profiles", [several, single])
        return tensorrt.Plan(str(plan), **options).write(tmp_path / f"{name}.plan")

    return made


@pytest.fixture
def bound(tensorrt_device: TensorRTDevice) -> Callable[..., dict[str, CudaBuffer]]:
    """`bound(rows, *names)`: buffers that the host sees, for all tensors of `engine` or some.

    x is 0, 1, 2, …; count 7, 8, …; outputs are -1.
    """
    whole = {"count", "more"}
    wide = {"x", "twice"}

    def made(rows: int, *names: str) -> dict[str, CudaBuffer]:
        buffers = {}
        for name in names or ("x", "count", "twice", "sum", "more"):
            shape = (rows, 4) if name in wide else (rows,)
            dtype = np.int64 if name in whole else np.float32
            buffers[name] = tensorrt_device.alloc(shape, dtype, "mapped")
            buffers[name].host[...] = -1
        buffers["x"].host[...] = np.arange(rows * 4).reshape(rows, 4)
        buffers["count"].host[...] = np.arange(rows) + 7
        return buffers

    return made

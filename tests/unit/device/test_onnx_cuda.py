"""onnxruntime on a GPU: what its providers are asked for, and what of theirs is not believed.

The CPU provider stands in for the GPU's: the fake GPU's memory is the host's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from edge_runtime.device import onnx_cuda
from edge_runtime.device.cuda import open_driver
from edge_runtime.device.cuda.budget import Budget
from edge_runtime.device.onnx_cuda import OnnxCudaDevice, OnnxCudaProgram
from edge_runtime.errors import DeviceError, DeviceLost, MemoryCapped, MissingExtra, ModelDamaged
from tests.fakes.cuda_names import CUstream_flags
from tests.fakes.gpu import FakeGpu

CPU = "CPUExecutionProvider"


class OnHost(OnnxCudaDevice):
    memory = "cpu"


class Opened:
    """What sessions were opened with."""

    def __init__(self) -> None:
        self.providers: list[list[tuple[str, dict[str, str]]]] = []
        self.takes = 0
        self.fails = ""

    def options(self, provider: str) -> dict[str, str]:
        (found,) = (options for name, options in self.providers[-1] if name == provider)
        return found


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, gpu: FakeGpu) -> Opened:
    """Sessions run on the CPU, whatever they are opened with, and say that they do not."""
    seen, real = Opened(), onnx_cuda.open_session

    def open_session(plan: Path, providers, threads: int = 1) -> ort.InferenceSession:
        seen.providers.append(providers)
        gpu.used += seen.takes
        if seen.fails:
            raise ModelDamaged(f"{plan} cannot be loaded: {seen.fails}", "Pull it.")
        session = real(plan, [CPU], threads)
        monkeypatch.setattr(session, "get_providers", lambda: [name for name, _ in providers])
        return session

    everything = ["TensorrtExecutionProvider", "CUDAExecutionProvider", CPU]
    monkeypatch.setattr(ort, "get_available_providers", lambda: everything)
    monkeypatch.setattr(onnx_cuda, "open_session", open_session)
    return seen


@pytest.fixture
def make(opened: Opened) -> Callable[..., OnHost]:
    made: list[OnHost] = []

    def device(name: str = "onnx-cuda", **options) -> OnHost:
        made.append(OnHost(open_driver(library="cuda-bindings"), name, **options))
        return made[-1]

    yield device
    for each in made:
        each.close()
        each.budget.check_integrity()
        assert each.budget.taken == 0


def test_results_land_in_the_bound_memory(make, plan: Path) -> None:
    device = make()
    stream = device.stream()
    shapes = {"x": (2, 4), "count": (2,), "sum": (2,), "more": (2,)}
    bindings = {
        name: device.alloc(shape, np.int64 if name in ("count", "more") else np.float32, "mapped")
        for name, shape in shapes.items()
    }
    bindings["x"].host[...] = np.arange(8).reshape(2, 4)
    bindings["count"].host[...] = 7, -1
    call = device.load(plan).bind(bindings, stream)
    call()
    assert bindings["sum"].host.tolist() == [6, 22]
    bindings["x"].host[...] = 1.0
    device.capture(call, stream).replay()
    stream.synchronize()
    assert bindings["sum"].host.tolist() == [4, 4]
    assert bindings["more"].host.tolist() == [8, 0]


def test_integers_are_bound_again_for_each_call(
    make, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime copies what only the CPU reads when it is bound, and never again."""
    bound: list[str] = []
    bind = ort.IOBinding.bind_input
    monkeypatch.setattr(
        ort.IOBinding,
        "bind_input",
        lambda self, name, *given: (bound.append(name), bind(self, name, *given))[1],
    )
    device = make()
    bindings = {
        name: device.alloc((2, 4) if name == "x" else (2,), dtype, "mapped")
        for name, dtype in (("x", np.float32), ("count", np.int64), ("more", np.int64))
    }
    call = device.load(plan).bind(bindings, device.stream())
    assert sorted(bound) == ["count", "x"]
    for _ in range(2):
        bound.clear()
        call()
        assert bound == ["count"]


def test_all_work_is_enqueued_on_the_one_stream_of_the_device(
    make, plan: Path, opened: Opened
) -> None:
    device = make(priority=-1)
    device.load(plan)
    assert device.lanes == 1
    assert device.stream() is device.stream()
    options = opened.options("CUDAExecutionProvider")
    assert options["user_compute_stream"] == str(device.stream().handle)
    assert device.stream().priority == -1
    assert options["device_id"] == "0"


def test_what_onnxruntime_fetches_on_the_default_stream_is_there(
    gpu: FakeGpu, make, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It copies feeds for the CPU there, and they must not come before those we enqueued."""
    gpu.deferred = True
    device = make()
    stream = device.stream()
    host, there = (device.alloc((1,), np.int64, kind) for kind in ("pinned", "mapped"))
    more = device.alloc((1,), np.int64, "mapped")
    x = device.alloc((1, 4), np.float32)
    program = device.load(plan)
    real = program._session.run_with_iobinding

    def run(*arguments) -> None:
        own = gpu.streams[stream.handle]
        if own.flags == CUstream_flags.CU_STREAM_DEFAULT:
            gpu._run(own)
        real(*arguments)

    monkeypatch.setattr(program._session, "run_with_iobinding", run)
    call = program.bind({"x": x, "count": there, "more": more}, stream)
    for count in (41, 7):
        host.host[...] = count
        device.copy(host, there, stream, "up")
        call()
        assert more.host.tolist() == [count + 1]


def test_float32_stays_float32_and_algorithms_are_not_searched_for(
    make, plan: Path, opened: Opened
) -> None:
    make().load(plan)
    options = opened.options("CUDAExecutionProvider")
    assert options["use_tf32"] == "0"
    assert options["cudnn_conv_algo_search"] == "HEURISTIC"
    assert "gpu_mem_limit" not in options
    assert [name for name, _ in opened.providers[-1]] == ["CUDAExecutionProvider"]


def test_runs_only_enqueue(make, plan: Path) -> None:
    program = make(run={"gpu_graph_id": "-1"}).load(plan)
    assert program._entries == {
        "disable_synchronize_execution_providers": "1",
        "gpu_graph_id": "-1",
    }


def test_options_can_be_changed_one_by_one(make, plan: Path, opened: Opened) -> None:
    make(options={"use_tf32": "1", "trt_max_workspace_size": "1"}).load(plan)
    options = opened.options("CUDAExecutionProvider")
    assert options["use_tf32"] == "1"
    assert options["cudnn_conv_algo_search"] == "HEURISTIC"
    assert not any(name.startswith("trt_") for name in options)


def test_engines_of_the_tensorrt_provider_are_kept_beside_their_graph(
    make, plan: Path, opened: Opened
) -> None:
    make("onnx-tensorrt", options={"trt_max_workspace_size": "1"}).load(plan)
    assert [name for name, _ in opened.providers[-1]] == [
        "TensorrtExecutionProvider",
        "CUDAExecutionProvider",
    ]
    options = opened.options("TensorrtExecutionProvider")
    assert options["trt_engine_cache_enable"] == options["trt_timing_cache_enable"] == "True"
    assert options["trt_max_workspace_size"] == "1"
    assert not any("fp16" in name for name in options)
    folder = Path(options["trt_engine_cache_path"])
    assert folder.is_dir()
    assert folder.name == plan.stem
    assert folder.parent == plan.parent / f"onnx-tensorrt-{ort.__version__}"
    assert options["user_compute_stream"] != "0"
    assert "use_tf32" not in options


def test_memory_that_a_session_takes_counts(make, plan: Path, opened: Opened) -> None:
    opened.takes = 3 << 20
    device = make(budget=Budget(8 << 20))
    before = device.budget.taken
    device.load(plan)
    assert device.budget.by_kind["driver"] == 3 << 20
    limit = int(opened.options("CUDAExecutionProvider")["gpu_mem_limit"])
    assert limit == (8 << 20) - before
    device.load(plan)
    with pytest.raises(MemoryCapped, match=r"memory_mb"):
        device.load(plan)


def test_memory_that_a_first_run_takes_counts_and_is_capped(
    make, plan: Path, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arenas grow when shapes are new; nobody tells, and what they have they keep."""
    device = make(budget=Budget(4 << 20))
    program = device.load(plan)
    x = device.alloc((1, 4), np.float32, "mapped")
    count = device.alloc((1,), np.int64, "mapped")
    grows, real = [1 << 20, 0, 2 << 20, 0, 2 << 20, 0], program._session.run_with_iobinding

    def run(*arguments) -> None:
        gpu.used += grows.pop(0)
        real(*arguments)

    monkeypatch.setattr(program._session, "run_with_iobinding", run)
    bindings = {"x": x, "count": count, "more": device.alloc((1,), np.int64, "mapped")}
    calls = [program.bind(bindings, device.stream()) for _ in range(3)]
    calls[0]()
    assert device.budget.by_kind["driver"] == 1 << 20
    calls[0]()
    calls[1]()
    assert device.budget.by_kind["driver"] == 3 << 20
    gpu.used += 1 << 20  # of another process: between first runs nobody looks
    calls[1]()
    assert device.budget.by_kind["driver"] == 3 << 20
    for _ in "ab":
        with pytest.raises(MemoryCapped, match="of driver memory"):
            calls[2]()
    device.budget.check_integrity()


@pytest.mark.parametrize("name", ["onnx-cuda", "onnx-tensorrt"])
def test_an_onnxruntime_without_the_provider_is_refused(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(ort, "get_available_providers", lambda: [CPU])
    with pytest.raises(MissingExtra, match=r"ExecutionProvider.*pip install onnxruntime-gpu"):
        OnnxCudaDevice(open_driver(library="cuda-bindings"), name)
    gpu.check_released()  # the context, too: the CPU is next, and wants that memory


def test_a_session_that_ended_up_on_the_cpu_is_an_error(
    make, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnxruntime only logs that the provider's libraries are not there."""
    device, real = make(), onnx_cuda.open_session

    def quietly(plan: Path, providers) -> ort.InferenceSession:
        session = real(plan, providers)
        monkeypatch.setattr(session, "get_providers", lambda: [CPU])
        return session

    monkeypatch.setattr(onnx_cuda, "open_session", quietly)
    with pytest.raises(DeviceError, match="cannot use CUDAExecutionProvider"):
        device.load(plan)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("BFCArena: Failed to allocate memory for requested buffer of size 4096", DeviceError),
        ("CUDA failure 2: out of memory ; GPU=0 ; hostname=board", DeviceError),
        ("CUDNN failure 5000: CUDNN_STATUS_EXECUTION_FAILED", DeviceError),
        ("Protobuf parsing failed.", ModelDamaged),
    ],
)
def test_a_full_gpu_is_not_a_damaged_model(
    make, plan: Path, opened: Opened, said: str, kind: type
) -> None:
    device = make()
    opened.fails = said
    with pytest.raises(kind) as caught:
        device.load(plan)
    assert said in str(caught.value)
    assert isinstance(caught.value, ModelDamaged) == (kind is ModelDamaged)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("CUDA failure 700: an illegal memory access was encountered ; GPU=0", DeviceLost),
        ("CUDA error 719: unspecified launch failure", DeviceLost),
        ("CUDA failure 2: out of memory ; GPU=0", DeviceError),
        ("CUBLAS failure 700: a number of its own", DeviceError),
        ("CUDA failure 98765: something new", DeviceError),
        ("Non-zero status code returned while running Concat node", DeviceError),
    ],
)
def test_a_fault_that_sticks_is_a_lost_device(
    make, plan: Path, monkeypatch: pytest.MonkeyPatch, said: str, kind: type
) -> None:
    device = make()
    program = device.load(plan)
    bindings = {"x": device.alloc((1, 4), np.float32), "count": device.alloc((1,), np.int64)}
    call = program.bind(bindings, device.stream())

    def fail(*_) -> None:
        raise RuntimeError(said)

    monkeypatch.setattr(program._session, "run_with_iobinding", fail)
    with pytest.raises(DeviceError, match=r"arithmetic failed with .*\(1, 4\)") as caught:
        call()
    assert type(caught.value) is kind
    assert isinstance(program, OnnxCudaProgram)

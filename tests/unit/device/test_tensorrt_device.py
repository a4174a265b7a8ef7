"""A device of TensorRT: what it loads and refuses, what memory it takes, what it keeps."""

import gc
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.device.base import Device
from edge_runtime.device.cuda import open_driver
from edge_runtime.device.cuda.budget import Budget
from edge_runtime.device.tensorrt import TensorRT, TensorRTDevice
from edge_runtime.device.tensorrt import device as module
from edge_runtime.device.tensorrt.logger import make_logger
from edge_runtime.errors import (
    DeviceError,
    DeviceLost,
    MemoryCapped,
    MissingExtra,
    ModelDamaged,
    ModelMissing,
)
from tests.fakes import tensorrt as fake
from tests.fakes.cuda_names import CUresult
from tests.fakes.gpu import FakeGpu

Engine = Callable[..., Path]


def opened(flavour: str = "tensorrt", **options: object) -> TensorRTDevice:
    driver = open_driver(library="cuda-bindings")
    return TensorRTDevice(driver, TensorRT(flavour, "10.3.0", fake), **options)


def test_what_it_is(tensorrt_gpu: FakeGpu) -> None:
    tensorrt_gpu.integrated = True
    device: Device = opened()
    assert device.name == "tensorrt 10.3 (Fake GPU, 8.7)"
    assert (device.suffix, device.integrated, device.batches, device.rounds) == (
        ".plan", True, True, True,
    )  # fmt: skip
    assert (device.lanes, device.chained) == (2, 4)
    device.close()
    device = opened(lanes=1, chained=7)
    assert (device.lanes, device.chained) == (1, 7)
    device.close()


def test_the_library_by_its_name(tensorrt_gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def find(flavour: str) -> TensorRT:
        asked.append(flavour)
        return TensorRT("tensorrt_rtx", "1.7.1.116", fake)

    monkeypatch.setattr(module, "find_tensorrt", find)
    driver = open_driver(library="cuda-bindings")
    for made in (TensorRTDevice(driver), TensorRTDevice(driver, "tensorrt_rtx")):
        assert made.name == "tensorrt_rtx 1.7 (Fake GPU, 8.7)"
    assert asked == ["auto", "tensorrt_rtx"]


def test_without_the_library_the_gpu_is_let_go(
    tensorrt_gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(flavour: str) -> TensorRT:
        raise MissingExtra("tensorrt is not installed", "Install it.")

    monkeypatch.setattr(module, "find_tensorrt", absent)
    with pytest.raises(MissingExtra):
        TensorRTDevice(open_driver(library="cuda-bindings"))
    tensorrt_gpu.check_released()


def test_what_the_library_takes_as_it_starts_is_under_the_cap(
    tensorrt_gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fake.Runtime

    def greedy(logger: object) -> object:
        tensorrt_gpu.used += 1000
        return real(logger)

    monkeypatch.setattr(fake, "Runtime", greedy)
    library = TensorRT("tensorrt", "10.3.0", fake)
    with pytest.raises(MemoryCapped, match="no 1000 bytes of driver memory"):
        TensorRTDevice(open_driver(library="cuda-bindings"), library, budget=Budget(999))
    assert tensorrt_gpu.retained == 0
    device = TensorRTDevice(open_driver(library="cuda-bindings"), library, budget=Budget(1000))
    assert device.budget.by_kind["driver"] == 1000


def test_a_plan_that_is_not_there(tensorrt_device: TensorRTDevice, tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"encoder.plan does not exist.*edge-runtime build"):
        tensorrt_device.load(tmp_path / "encoder.plan")


@pytest.mark.parametrize("kept", [0, 5, 40])
def test_a_plan_that_is_cut_off(
    tensorrt_device: TensorRTDevice, engine: Engine, kept: int, tmp_path: Path
) -> None:
    broken = tmp_path / "encoder.plan"
    broken.write_bytes(engine().read_bytes()[:kept])
    with pytest.raises(ModelDamaged, match=r"encoder.plan cannot be loaded: .*edge-runtime build"):
        tensorrt_device.load(broken)


def test_a_plan_of_another_machine(tensorrt_device: TensorRTDevice, engine: Engine) -> None:
    said = "cannot be loaded: The engine plan file is not compatible"
    with pytest.raises(ModelDamaged, match=said):
        tensorrt_device.load(engine(fails=["deserialize"]))
    tensorrt_device.load(engine())


def test_no_memory_for_a_plan(
    tensorrt_gpu: FakeGpu, tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    path = engine(weights=65 << 20)
    with pytest.raises(DeviceError, match=rf"{path} cannot be loaded: .*{65 << 20} bytes"):
        tensorrt_device.load(path)
    assert tensorrt_device.budget.by_kind["engine"] == 0


def test_a_device_that_is_lost_damages_no_plan(
    tensorrt_gpu: FakeGpu, tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    tensorrt_gpu.fail("cuMemAlloc", CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
    tensorrt_gpu.fail("cuMemGetInfo", CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, 1)
    tensorrt_gpu.fail("cuMemGetInfo", CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, 2)
    with pytest.raises(DeviceLost, match="cannot be loaded"):
        tensorrt_device.load(engine())


def test_an_error_that_is_none_of_memory(
    tensorrt_gpu: FakeGpu, tensorrt_device: TensorRTDevice, engine: Engine
) -> None:
    # The driver cannot say what is free, which is not why the plan was refused.
    tensorrt_gpu.fail("cuMemGetInfo", CUresult.CUDA_ERROR_UNKNOWN)
    with pytest.raises(ModelDamaged, match="is not compatible"):
        tensorrt_device.load(engine(fails=["deserialize"]))


def test_what_tensorrt_takes_is_counted_and_capped(tensorrt_gpu: FakeGpu, engine: Engine) -> None:
    device = opened(budget=Budget(10_000))
    program = device.load(engine(weights=4000))
    assert {kind: size for kind, size in device.budget.by_kind.items() if size} == {"engine": 4096}
    with pytest.raises(DeviceError, match=r"no 7168 bytes of engine memory: 4096 .*memory_mb"):
        device.load(engine("large", weights=7000))
    del program
    assert device.budget.by_kind["engine"] == 4096  # the device keeps what it loaded
    device.close()
    gc.collect()
    assert device.budget.taken == 0
    device.budget.check_integrity()
    tensorrt_gpu.check_released()


def test_an_empty_allocation(tensorrt_gpu: FakeGpu, engine: Engine) -> None:
    device = opened()
    device.load(engine(weights=0, persistent=0))
    assert device.budget.allocations == 0
    device.close()


def test_memory_that_is_not_ours_is_not_freed(tensorrt_gpu: FakeGpu) -> None:
    device = opened()
    assert not device._allocator.deallocate(0x1000)
    device.close()
    assert device._allocator.deallocate(0x1000)  # all was released: nothing is left to say


def test_the_allocator_answers_under_every_name(tensorrt_gpu: FakeGpu) -> None:
    device = opened()
    allocator = device._allocator
    address = allocator.allocate_async(100, 256, 0, 5)
    assert address % 256 == 0
    assert device.budget.by_kind["engine"] == 256
    # A larger piece in its place is not to be had: the library takes a new one and copies.
    assert allocator.reallocate(address, 256, 200) == 0
    assert allocator.deallocate_async(address, 5)
    assert device.budget.taken == 0
    device.close()


def test_after_close(tensorrt_gpu: FakeGpu, engine: Engine) -> None:
    device = opened()
    program, stream = device.load(engine()), device.stream()
    bindings = {
        "x": device.alloc((2, 4), np.float32), "count": device.alloc((2,), np.int64)
    }  # fmt: skip
    call = program.bind(bindings, stream)
    device.close()
    device.close()
    assert device.budget.taken == 0
    with pytest.raises(DeviceError, match="after it was closed"):
        device.load(engine())
    del call, program
    gc.collect()
    device.budget.check_integrity()


def test_kernels_are_kept_for_the_next_start(tensorrt_gpu: FakeGpu, engine: Engine) -> None:
    device, path = opened("tensorrt_rtx"), engine()
    cache = path.with_name("arithmetic.plan.cache")
    program, stream = device.load(path), device.stream()
    bindings = {
        "x": device.alloc((2, 4), np.float32), "count": device.alloc((2,), np.int64)
    }  # fmt: skip
    program.bind(bindings, stream)
    assert not cache.exists()
    device.save_caches()
    kept = cache.read_bytes()
    assert kept.count(b"\n") == 2
    device.close()
    again = opened("tensorrt_rtx")
    again.load(path)
    cache.unlink()
    again.save_caches()
    assert not cache.exists()  # nothing new
    again.close()


def test_a_context_of_rtx_is_made_for_graphs(tensorrt_gpu: FakeGpu, engine: Engine) -> None:
    device = opened("tensorrt_rtx")
    config = device.load(engine()).engine._how
    assert config.cuda_graph_strategy is fake.CudaGraphStrategy.DISABLED
    kinds = fake.DynamicShapesKernelSpecializationStrategy
    assert config.dynamic_shapes_kernel_specialization_strategy is kinds.EAGER
    device.close()


def test_tensorrt_proper_keeps_no_kernels(tensorrt_gpu: FakeGpu, engine: Engine) -> None:
    device, path = opened(), engine()
    device.load(path)
    device.save_caches()
    assert [each.name for each in path.parent.glob("*.cache")] == []
    device.close()


def test_what_the_library_says_is_logged(
    tensorrt_device: TensorRTDevice, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    logger = tensorrt_device._logger
    with caplog.at_level(logging.DEBUG, "edge_runtime.device.tensorrt"):
        for severity in fake.ILogger.Severity:
            told = f"about {severity.name}"
            logger.log(severity, told)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("CRITICAL", "about INTERNAL_ERROR"),
        ("ERROR", "about ERROR"),
        ("WARNING", "about WARNING"),
        ("DEBUG", "about INFO"),
        ("DEBUG", "about VERBOSE"),
    ]
    caplog.clear()
    failed: list[str] = []
    logger = make_logger(tensorrt_device.tensorrt, failed.append, aloud=False)
    with caplog.at_level(logging.DEBUG, "edge_runtime.device.tensorrt"):
        for severity in fake.ILogger.Severity:
            logger.log(severity, severity.name)
    assert {record.levelname for record in caplog.records} == {"DEBUG"}
    assert failed == ["INTERNAL_ERROR", "ERROR"]
    # The first one is the reason of what fails next; an old one is not.
    with pytest.raises(ModelDamaged) as raised:
        tensorrt_device.load(engine(fails=["deserialize"]))
    assert "about" not in str(raised.value)

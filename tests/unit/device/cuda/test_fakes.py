"""The fakes have the names, parameters and values of the real libraries, and all that we use."""

import ctypes
import enum
import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from edge_runtime import device
from edge_runtime.device.cuda import held, open_driver
from edge_runtime.device.cuda.status import LOST
from tests.fakes import cuda_names, pycuda
from tests.fakes.cuda import Functions, Library
from tests.fakes.gpu import FakeGpu

DEVICE = Path(device.__file__).parent
CUDA_NAME = re.compile(r"\b(?:cu[A-Z][a-z]\w+|CU[a-z]\w+|CU_[A-Z]\w+|CUDA_ERROR_[A-Z]\w+)\b")
FUNCTIONS = sorted(name for name in dir(Functions) if name.startswith("cu"))


@pytest.fixture(scope="module")
def real() -> ModuleType:
    return pytest.importorskip(
        "cuda.bindings.driver", reason="cuda-bindings is not installed: pip install cuda-bindings"
    )


def used() -> set[str]:
    """Every name of the driver's API in the code of the device line, texts included."""
    found: set[str] = set()
    for path in DEVICE.rglob("*.py"):
        found.update(CUDA_NAME.findall(path.read_text(encoding="utf-8")))
    return found


def members(module: ModuleType) -> set[str]:
    """Names of a module, and of the values of its enumerations."""
    found = set(dir(module))
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, int):
            found.update(dir(value))
    return found


def test_finds_what_is_used() -> None:
    assert {"cuMemAlloc", "cuGraphLaunch", "CUresult", "CU_STREAM_NON_BLOCKING"} <= used()
    assert len(FUNCTIONS) > 30


def test_every_name_that_is_used_is_real(real: ModuleType) -> None:
    # A prefix that is cut off names; a status that cuda-bindings knows since 13.
    excused = {"CU_GRAPH_NODE_TYPE_", "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER"}
    versioned = {name for name in vars(Library(FakeGpu())) if name.endswith("_v2")}
    assert used() - members(real) <= excused | versioned


def test_a_copy_of_rows_is_laid_out_as_cuda_has_it(real: ModuleType) -> None:
    ours, there = held.Copy2D(), real.CUDA_MEMCPY2D()
    memory = real.CUmemorytype.CU_MEMORYTYPE_UNIFIED
    assert int(memory) == held.UNIFIED
    there.srcMemoryType = there.dstMemoryType = memory
    ours.srcMemoryType = ours.dstMemoryType = held.UNIFIED
    others = {name for name, _ in held.Copy2D._fields_ if not re.search("Type|Host|Array", name)}
    for number, name in enumerate(sorted(others), 1 << 33):
        setattr(there, name, number)
        setattr(ours, name, number)
    assert ctypes.string_at(there.getPtr(), ctypes.sizeof(ours)) == bytes(ours)


def test_every_status_of_a_lost_device_is_real(real: ModuleType) -> None:
    assert set(real.CUresult.__members__) >= LOST


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters_are_real(real: ModuleType, name: str) -> None:
    fake = inspect.signature(getattr(Functions, name)).parameters.values()
    wanted = [(each.name, each.default) for each in fake][1:]
    there = inspect.signature(getattr(real, name)).parameters.values()
    assert wanted == [(each.name, each.default) for each in there]


@pytest.mark.parametrize("fake", cuda_names.ENUMS, ids=lambda each: each.__name__)
def test_values_are_real(real: ModuleType, fake: type[enum.IntEnum]) -> None:
    there = getattr(real, fake.__name__)
    for member in fake:
        assert int(getattr(there, member.name)) == int(member), member.name


def test_constants_and_handles_are_real(real: ModuleType) -> None:
    for name, value in cuda_names.CONSTANTS.items():
        assert getattr(real, name) == value
    for handle in cuda_names.HANDLES:
        assert int(getattr(real, handle.__name__)(16)) == int(handle(16)) == 16


@pytest.mark.parametrize("fake", cuda_names.RECORDS, ids=lambda each: each.__name__)
def test_fields_are_real(real: ModuleType, fake: type) -> None:
    there = getattr(real, fake.__name__)()
    assert all(hasattr(there, name) for name in vars(fake()))


def test_the_fake_has_all_that_is_used() -> None:
    """Of calls and enumerations; statuses that need not occur may be missing."""
    known = set(FUNCTIONS) | set(cuda_names.CONSTANTS)
    for each in (*cuda_names.ENUMS, *cuda_names.HANDLES, *cuda_names.RECORDS):
        known |= {each.__name__, *getattr(each, "__members__", ())}
    missing = {name for name in used() - known if not name.startswith("CUDA_ERROR_")}
    assert missing - set(vars(Library(FakeGpu()))) == {
        "CU_GRAPH_NODE_TYPE_", "CU_MEMORYTYPE_UNIFIED", "cuMemcpy2DAsync",
    }  # fmt: skip


def test_kernels_run_with_their_arguments(gpu: FakeGpu) -> None:
    from cuda.bindings import driver

    stream = open_driver(library="cuda-bindings").stream()
    seen: list[tuple[int, float]] = []
    gpu.kernels["scale"] = lambda count, factor: seen.append((count, factor))
    _, module = driver.cuModuleLoadData(b"code")
    _, kernel = driver.cuModuleGetFunction(module, b"scale")
    assert driver.cuModuleGetFunction(module, b"other")[0].name == "CUDA_ERROR_NOT_FOUND"
    arguments = ((3, 0.5), (ctypes.c_int, ctypes.c_float))
    assert driver.cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, stream, arguments, 0) == (0,)
    assert seen == [(3, 0.5)]
    for grid, block in ((0, 64), (1, 2048)):
        (status,) = driver.cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, 0, stream, arguments, 0)
        assert status.name == "CUDA_ERROR_INVALID_VALUE"


def test_pycuda_has_what_its_fake_has() -> None:
    if importlib.util.find_spec("pycuda") is None:
        pytest.skip("PyCUDA is not installed: it is compiled against a CUDA toolkit")
    try:
        there = importlib.import_module("pycuda.driver")
    except ImportError as error:
        pytest.skip(f"PyCUDA needs the NVIDIA driver here: {error}")
    for name in pycuda.NAMES:
        assert hasattr(there, name), name
    for name in ("push", "pop", "detach", "handle"):
        assert hasattr(there.Context, name)
    assert hasattr(there.Device, "retain_primary_context")
    assert hasattr(there.DeviceAllocation, "free")
    assert int(there.host_alloc_flags.DEVICEMAP) == pycuda.HostAllocFlags.DEVICEMAP
    assert int(there.host_alloc_flags.PORTABLE) == pycuda.HostAllocFlags.PORTABLE
    assert issubclass(there.MemoryError, there.Error)
    assert "pycuda.autoinit" not in sys.modules

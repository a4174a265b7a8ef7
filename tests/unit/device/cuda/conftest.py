"""A GPU that is not there, behind the libraries that drive one."""

import gc
from collections.abc import Iterator

import pytest

from edge_runtime.device.cuda import Driver, open_driver
from edge_runtime.device.cuda.budget import Budget
from edge_runtime.device.cuda.device import CudaDevice
from tests.fakes import pycuda
from tests.fakes.gpu import FakeGpu
from tests.fakes.pycuda import PyCuda


@pytest.fixture
def pycuda_fake(monkeypatch: pytest.MonkeyPatch, gpu: FakeGpu) -> PyCuda:
    return pycuda.install(monkeypatch, gpu)


@pytest.fixture(params=["cuda-bindings", "pycuda"])
def library(request: pytest.FixtureRequest, gpu: FakeGpu) -> Iterator[str]:
    """Each library in turn; what a test leaves on PyCUDA's stacks would end the process."""
    name = str(request.param)
    if name == "pycuda":
        content = request.getfixturevalue("pycuda_fake")
        yield name
        assert not any(content.stacks.values()), content.stacks
    else:
        yield name


@pytest.fixture
def driver(library: str) -> Driver:
    return open_driver(0, library)


@pytest.fixture
def device(driver: Driver, gpu: FakeGpu) -> Iterator[CudaDevice]:
    """Closed at the end, when nothing may be left on the GPU."""
    made = CudaDevice(driver, budget=Budget(32 << 20))
    yield made
    made.budget.check_integrity()
    gc.collect()  # an error that was caught holds its frames, in a cycle
    made.close()
    if gpu.lost is None:
        gpu.check_released()
        assert made.budget.taken == 0

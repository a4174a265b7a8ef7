"""The library that drives the GPU is the one asked for, or the best that loads, and said."""

import importlib
import importlib.util
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.device import cuda as device_cuda
from edge_runtime.device.cuda import open_driver, present
from edge_runtime.errors import ConfigError, DeviceError, MissingExtra
from tests.fakes.cuda_names import CUresult
from tests.fakes.gpu import FakeGpu
from tests.fakes.pycuda import PyCuda


def hide(monkeypatch: pytest.MonkeyPatch, *hidden: str) -> None:
    """Let these packages look as if they were not installed."""
    real = importlib.util.find_spec

    def find_spec(name: str, package: str | None = None) -> Any:
        return None if name in hidden else real(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)


def break_pycuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PyCUDA be installed, and fail when it is loaded."""
    real = importlib.import_module

    def import_module(name: str, package: str | None = None) -> Any:
        if name == "pycuda.driver":
            raise ImportError("libcurand.so.10: cannot open shared object file")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", import_module)


def test_a_gpu_is_where_its_driver_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nodes = (str(tmp_path / "nvidiactl"), str(tmp_path / "nvmap"))
    monkeypatch.setattr(device_cuda, "NODES", nodes)
    assert not present()
    (tmp_path / "nvmap").touch()
    assert present()


def test_auto_takes_pycuda_where_it_is(gpu: FakeGpu, pycuda_fake: PyCuda) -> None:
    assert open_driver().library == "pycuda"
    assert open_driver(library="cuda-bindings").library == "cuda-bindings"


def test_auto_takes_cuda_bindings_where_pycuda_is_not(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, "pycuda")
    assert open_driver().library == "cuda-bindings"
    with pytest.raises(MissingExtra, match=r"pycuda is not installed.*pip install"):
        open_driver(library="pycuda")


def test_a_pycuda_that_does_not_load_is_said(
    gpu: FakeGpu,
    pycuda_fake: PyCuda,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    break_pycuda(monkeypatch)
    with caplog.at_level(logging.WARNING):
        assert open_driver().library == "cuda-bindings"
    assert "libcurand.so.10" in caplog.text
    with pytest.raises(DeviceError, match=r"libcurand.*Rebuild it"):
        open_driver(library="pycuda")


@pytest.mark.parametrize("hidden", ["cuda", "cuda.bindings"])
def test_without_cuda_bindings(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    hide(monkeypatch, hidden)
    with pytest.raises(MissingExtra, match=r"cuda-bindings is not installed.*\[jetson6\]"):
        open_driver()


def test_an_unknown_library_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'cupy'.*auto, pycuda, cuda-bindings"):
        open_driver(library="cupy")


def test_a_gpu_that_is_not_there(library: str, gpu: FakeGpu) -> None:
    gpu.count = 2
    with pytest.raises(DeviceError, match=r"no GPU 2: this machine shows 2.*one of 0 to 1"):
        open_driver(2, library)
    gpu.count = 0
    with pytest.raises(DeviceError, match=r"shows 0\. Check that the GPU is seen"):
        open_driver(0, library)


def test_a_driver_that_is_not_there(
    library: str, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(flags: int) -> None:
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    monkeypatch.setattr(sys.modules["cuda.bindings.driver"], "cuInit", missing)
    with pytest.raises(DeviceError, match=r"dlopen libcuda.so.1.*Install the NVIDIA driver"):
        open_driver(0, library)


@pytest.mark.parametrize(
    ("status", "fix"),
    [
        (CUresult.CUDA_ERROR_NO_DEVICE, "nvidia-smi"),
        (CUresult.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "Restart the machine"),
        (CUresult.CUDA_ERROR_STUB_LIBRARY, "stub"),
        (CUresult.CUDA_ERROR_UNKNOWN, "Restart edge-runtime"),
    ],
)
def test_a_driver_that_does_not_start(
    library: str, gpu: FakeGpu, status: CUresult, fix: str
) -> None:
    gpu.fail("cuInit", status)
    with pytest.raises(DeviceError, match=f"cuInit says {status.name}.*{fix}"):
        open_driver(0, library)


@pytest.mark.parametrize("call", ["cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuDeviceGet"])
def test_a_gpu_that_does_not_open(library: str, gpu: FakeGpu, call: str) -> None:
    gpu.fail(call, CUresult.CUDA_ERROR_DEVICE_UNAVAILABLE)
    with pytest.raises(DeviceError, match=f"{call} says CUDA_ERROR_DEVICE_UNAVAILABLE"):
        open_driver(0, library)

"""Which devices are tried, in what order, and how one that is named is opened or refused."""

from __future__ import annotations

import importlib.util

import pytest

from edge_runtime import device as room
from edge_runtime.config import Computing
from edge_runtime.device import candidates, open_device
from edge_runtime.device.tensorrt import TensorRT
from edge_runtime.errors import ConfigError, EdgeRuntimeError, MissingExtra
from tests.fakes import cuda, tensorrt
from tests.fakes.gpu import FakeGpu


@pytest.fixture
def gpu(monkeypatch):
    def there(present: bool) -> None:
        monkeypatch.setattr(room, "present", lambda: present)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return there


def test_a_gpu_comes_before_the_cpu(gpu):
    gpu(True)
    assert candidates("auto") == ("tensorrt", "onnx-cuda", "cpu")


def test_without_a_gpu_the_cpu_is_the_first_choice(gpu):
    gpu(False)
    assert candidates() == ("cpu",)


@pytest.mark.parametrize(("visible", "seen"), [("", False), ("-1", False), ("0", True)])
def test_gpus_can_be_hidden(gpu, monkeypatch, visible, seen):
    gpu(True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert (len(candidates()) > 1) == seen


@pytest.mark.parametrize("name", ["tensorrt", "onnx-cuda", "onnx-tensorrt", "cpu"])
def test_a_device_that_is_named_is_the_only_one(gpu, name):
    gpu(True)
    assert candidates(name) == (name,)


def test_an_unknown_name_is_refused():
    for choose in (candidates, open_device):
        with pytest.raises(ConfigError, match=r"unknown device 'gpu'.*auto, .*onnx-cuda.* cpu"):
            choose("gpu")


def test_the_cpu_is_opened_with_its_lanes(gpu):
    gpu(False)
    for name in ("auto", "cpu"):
        device = open_device(name, threads=2)
        assert device.name == "cpu"
        assert device.integrated
        device.close()
    assert open_device("cpu", Computing(lanes=3)).lanes == 3


def test_audio_is_gathered_by_a_kernel_where_that_is_asked_for(monkeypatch):
    fake = FakeGpu()
    cuda.install(monkeypatch, fake)
    tensorrt.connect(monkeypatch, fake)
    monkeypatch.setattr(
        "edge_runtime.device.tensorrt.device.find_tensorrt",
        lambda name: TensorRT("tensorrt", "10.3.0", tensorrt),
    )
    for gather, calls in (("copy", 0), ("kernel", 1)):
        fake.kernels["gather"] = lambda *given: None
        monkeypatch.setattr("edge_runtime.device.cuda.device.compiled", lambda *given: b"code")
        device = open_device("tensorrt", Computing(gather=gather))
        assert len(fake.modules) == calls
        device.close()
        fake.check_released()


@pytest.mark.parametrize("name", ["tensorrt", "onnx-cuda", "onnx-tensorrt", "cpu"])
def test_a_library_that_is_absent_is_named(monkeypatch, name):
    found = importlib.util.find_spec
    absent = "onnxruntime" if name == "cpu" else "cuda"
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == absent else found(name)
    )
    package = "onnxruntime" if name == "cpu" else "cuda-bindings"
    with pytest.raises(MissingExtra, match=f"{package} is not installed.*pip install"):
        open_device(name)


@pytest.mark.parametrize("name", ["tensorrt", "onnx-cuda", "onnx-tensorrt"])
def test_a_gpu_that_is_named_is_opened_or_an_error(monkeypatch, name):
    def fail(index):
        raise EdgeRuntimeError(f"no GPU {index}", "Buy one.")

    monkeypatch.setattr("edge_runtime.device.cuda.open_driver", fail)
    with pytest.raises(EdgeRuntimeError, match="no GPU 2"):
        open_device(name, Computing(index=2))

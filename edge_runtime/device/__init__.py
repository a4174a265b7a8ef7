"""Compute devices behind one small line: `candidates` names them, `open_device` opens one."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

from edge_runtime.config import Computing
from edge_runtime.device.base import Buffer, Device, Graph, Program, Stream, TensorSpec
from edge_runtime.device.cuda import present
from edge_runtime.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from edge_runtime.device.cuda.device import CudaDevice

__all__ = [
    "NAMES",
    "Buffer",
    "Device",
    "Graph",
    "Program",
    "Stream",
    "TensorSpec",
    "candidates",
    "open_device",
]

NAMES = ("auto", "tensorrt", "onnx-cuda", "onnx-tensorrt", "cpu")


def candidates(name: str = "auto") -> tuple[str, ...]:
    """The devices to try for `name`, best first: several for `auto` on a machine with a GPU.

    Raises `ConfigError` for an unknown name.
    """
    if name not in NAMES:
        raise ConfigError(f"unknown device {name!r}", f"Use one of {', '.join(NAMES)}.")
    if name != "auto":
        return (name,)
    # A GPU whose driver does not work counts: then that is an error, and is said.
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1")
    return ("tensorrt", "onnx-cuda", "cpu") if present() and not hidden else ("cpu",)


def open_device(name: str = "auto", settings: Computing | None = None, threads: int = 1) -> Device:
    """The device called `name`, for `auto` the first of its candidates; never another one.

    `threads` is the number of threads inside one call on a CPU. Raises `ConfigError` for an
    unknown name, `MissingExtra` where a library is absent, `DeviceError` where the GPU or its
    driver cannot be used.
    """
    name = candidates(name)[0]
    settings = settings or Computing()
    if name == "tensorrt":
        return _tensorrt(settings)
    if importlib.util.find_spec("onnxruntime") is None:
        package = "onnxruntime" if name == "cpu" else "onnxruntime-gpu"
        raise MissingExtra("onnxruntime is not installed", f"Run: pip install {package}")
    if name == "cpu":
        from edge_runtime.device.onnx import OnnxDevice

        return OnnxDevice(threads=threads, lanes=settings.lanes or None)
    return _onnx(name, settings)


def _tensorrt(settings: Computing) -> Device:
    from edge_runtime.device.cuda import open_driver
    from edge_runtime.device.cuda.budget import Budget

    # Before TensorRT is loaded: without a driver, what else is missing does not matter.
    driver = open_driver(settings.index)
    from edge_runtime.device.tensorrt.device import TensorRTDevice

    device = TensorRTDevice(
        driver,
        settings.tensorrt,
        budget=Budget(settings.memory_mb << 20 or None),
        priority=settings.priority,
        lanes=settings.lanes,
        graphs=settings.graphs,
        chained=settings.chained,
    )
    _gather(device, settings)
    return device


def _gather(device: CudaDevice, settings: Computing) -> None:
    if settings.gather == "kernel":
        device.gather()


def _onnx(name: str, settings: Computing) -> Device:
    from edge_runtime.device.cuda import open_driver
    from edge_runtime.device.cuda.budget import Budget

    driver = open_driver(settings.index)
    from edge_runtime.device.onnx_cuda import OnnxCudaDevice

    device = OnnxCudaDevice(
        driver,
        name,
        budget=Budget(settings.memory_mb << 20 or None),
        priority=settings.priority,
        chained=settings.chained,
    )
    _gather(device, settings)
    return device

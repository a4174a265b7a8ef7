"""Compute devices behind one small line: `open_device` picks and loads one."""

from __future__ import annotations

import importlib.util

from edge_runtime.device.base import Buffer, Device, Graph, Program, Stream, TensorSpec
from edge_runtime.errors import ConfigError, MissingExtra

__all__ = ["Buffer", "Device", "Graph", "Program", "Stream", "TensorSpec", "open_device"]

NAMES = ("auto", "cpu")


def open_device(name: str = "auto", threads: int = 1) -> Device:
    """The device called `name`, or the best one found for `auto`.

    `threads` is the number of threads inside one program call.
    Raises `ConfigError` for an unknown name, `MissingExtra` where its library is absent.
    """
    if name not in NAMES:
        raise ConfigError(f"unknown device {name!r}", f"Use one of {', '.join(NAMES)}.")
    if importlib.util.find_spec("onnxruntime") is None:
        raise MissingExtra("onnxruntime is not installed", "Run: pip install onnxruntime")
    from edge_runtime.device.onnx import OnnxDevice

    return OnnxDevice(threads=threads)

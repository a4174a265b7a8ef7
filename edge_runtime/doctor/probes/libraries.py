"""Libraries that are loaded to see whether they load."""

from __future__ import annotations

from edge_runtime.doctor.facts import Loaded
from edge_runtime.doctor.machine import Machine
from edge_runtime.doctor.probes.settings import configured


def tensorrt(machine: Machine, config: str) -> Loaded:
    """TensorRT, in the flavour that is configured."""
    return machine.loaded("tensorrt", configured(machine, config).computing.tensorrt)


def pycuda(machine: Machine, config: str) -> Loaded:
    """PyCUDA, which is compiled for one CUDA and one Python."""
    return machine.loaded("pycuda")


def onnxruntime(machine: Machine, config: str) -> Loaded:
    """onnxruntime with its providers."""
    return machine.loaded("onnxruntime")

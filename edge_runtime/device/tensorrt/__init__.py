"""Plans of TensorRT and TensorRT-RTX on a CUDA device."""

from edge_runtime.device.tensorrt.device import TensorRTDevice
from edge_runtime.device.tensorrt.module import TensorRT, find_tensorrt, installed

__all__ = ["TensorRT", "TensorRTDevice", "find_tensorrt", "installed"]

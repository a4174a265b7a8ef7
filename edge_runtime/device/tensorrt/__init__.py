"""Plans of TensorRT and TensorRT-RTX on a CUDA device."""

from edge_runtime.device.tensorrt.module import TensorRT, find_tensorrt, installed

__all__ = ["TensorRT", "find_tensorrt", "installed"]

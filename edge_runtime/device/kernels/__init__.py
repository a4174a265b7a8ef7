"""What programs made of our own CUDA kernels share: their launches and their weights."""

from edge_runtime.device.kernels.launch import Launch, Launches, Number
from edge_runtime.device.kernels.weights import packed, upload

__all__ = ["Launch", "Launches", "Number", "packed", "upload"]

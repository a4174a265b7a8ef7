"""What programs made of our own CUDA kernels share: their launches and their weights."""

from pathlib import Path

from edge_runtime.device.kernels.launch import Launch, Launches, Number
from edge_runtime.device.kernels.weights import packed, upload

HEADERS = tuple(sorted(Path(__file__).parent.glob("*.cuh")))
"""What their sources may include."""

__all__ = ["HEADERS", "Launch", "Launches", "Number", "packed", "upload"]

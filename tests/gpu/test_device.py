"""What only a machine with a GPU can show; skipped, saying why, where there is none."""

import pytest

from edge_runtime import device
from edge_runtime.device.cuda import present


def test_auto_tries_the_gpu_first() -> None:
    if not present():
        pytest.skip("no NVIDIA GPU on this machine")
    assert device.candidates("auto") == ("tensorrt", "onnx-cuda", "cpu")

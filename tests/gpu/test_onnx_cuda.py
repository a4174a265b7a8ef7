"""onnxruntime's providers on a real GPU: they bind our memory and enqueue on our stream."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.config import Computing
from edge_runtime.device import Device, open_device
from edge_runtime.device.cuda import present
from edge_runtime.engines.export.graph import GraphWriter

ROWS, WIDE = 64, 256


@pytest.fixture(params=["onnx-cuda", "onnx-tensorrt"])
def device(request: pytest.FixtureRequest) -> Device:
    if not present():
        pytest.skip("no NVIDIA GPU on this machine")
    if importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("onnxruntime is not installed")
    import onnxruntime

    wanted = {"onnx-cuda": "CUDA", "onnx-tensorrt": "Tensorrt"}[request.param]
    if f"{wanted}ExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip(f"this onnxruntime has no {wanted}ExecutionProvider")
    made = open_device(request.param, Computing(precision="fp32", memory_mb=2048))
    yield made
    made.close()


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """`x` (B, 256) f32, `w` (256, 256) → `y` = x·w (B, 256), and `count` (B) i64 → `more`."""
    g = GraphWriter("product")
    x = g.input("x", np.float32, ("B", WIDE))
    w = g.input("w", np.float32, (WIDE, WIDE))
    count = g.input("count", np.int64, ("B",))
    g.output(g.op("MatMul", x, w), "y", np.float32, ("B", WIDE))
    g.output(g.add(count, g.ints(1)), "more", np.int64, ("B",))
    path = tmp_path / "product.onnx"
    g.save(path)
    return path


def test_a_product_is_exact_and_waited_for_once(device: Device, plan: Path) -> None:
    """With TF32 the products would be off by 1e-3; without our stream they would come too late."""
    stream = device.stream()
    shapes = {"x": (ROWS, WIDE), "w": (WIDE, WIDE), "y": (ROWS, WIDE)}
    there = {name: device.alloc(shape, np.float32) for name, shape in shapes.items()}
    host = {name: device.alloc(shape, np.float32, "pinned") for name, shape in shapes.items()}
    for name in ("count", "more"):
        there[name] = device.alloc((ROWS,), np.int64)
        host[name] = device.alloc((ROWS,), np.int64, "pinned")
    random = np.random.default_rng(1)
    for name in ("x", "w"):
        host[name].host[...] = random.normal(size=shapes[name])
    host["count"].host[...] = np.arange(ROWS)
    call = device.load(plan).bind(there, stream)
    for turn in range(3):
        host["x"].host[...] += turn
        for name in ("x", "w", "count"):
            device.copy(host[name], there[name], stream, "up")
        call()
        for name in ("y", "more"):
            device.copy(there[name], host[name], stream, "down")
        stream.synchronize()
        right = host["x"].host.astype(np.float64) @ host["w"].host.astype(np.float64)
        assert np.abs(host["y"].host - right).max() < 1e-4
        assert host["more"].host.tolist() == list(range(1, ROWS + 1))
    assert stream.counters.waits == 3

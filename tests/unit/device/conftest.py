"""A program small enough to reason about: sums, products and a cast."""

from pathlib import Path

import numpy as np
import pytest

from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.engines.export.graph import GraphWriter


@pytest.fixture
def device() -> OnnxDevice:
    return OnnxDevice()


@pytest.fixture(scope="session")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`x` (B, 4) f32, `count` (B) i64 → `twice` (B, 4), `sum` (B), `more` (B) i64."""
    g = GraphWriter("arithmetic")
    x = g.input("x", np.float32, ("B", 4))
    count = g.input("count", np.int64, ("B",))
    g.output(g.add(x, x), "twice", np.float32, ("B", 4))
    g.output(g.op("ReduceSum", x, g.ints(1), keepdims=0), "sum", np.float32, ("B",))
    g.output(g.add(count, g.ints(1)), "more", np.int64, ("B",))
    path = tmp_path_factory.mktemp("plan") / "arithmetic.onnx"
    g.save(path)
    return path

"""Weights in 8 bits: near the floats, and never more than 16-bit sums hold."""

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.engines.calibrate.rounding import PAIR, rounded


def matrix(seed: int, shape=(288, 96)) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, shape).astype(np.float32)


def error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def test_near_the_floats() -> None:
    weight = matrix(1)
    found = rounded(weight)
    assert found.values.dtype == np.int8
    assert found.scales.astype(np.float16).astype(np.float32).tolist() == found.scales.tolist()
    step = np.abs(weight).max(axis=0) / 127
    plain = np.rint(weight / step) * step
    # What neighbours cost: less than half a bit on top of the rounding itself.
    assert error(plain, weight) < error(found.floats, weight) < 1.5 * error(plain, weight)


def test_channels_of_zeros_and_of_one_size() -> None:
    weight = np.zeros((6, 3), np.float32)
    weight[0, 1], weight[:, 2] = -3.0, 0.5
    found = rounded(weight)
    assert not found.values[:, 0].any()
    np.testing.assert_allclose(found.floats, weight, rtol=1e-2)


def test_smoothing_is_taken_into_the_weights() -> None:
    weight = matrix(2)
    smooth = np.exp(np.random.default_rng(3).normal(0, 1, 288)).astype(np.float32)
    assert error(rounded(weight, smooth).floats, weight * smooth[:, None]) < 0.03


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("rows", [7, 288, 1152])
def test_no_kernel_of_this_machine_saturates(rows: int, sign: int) -> None:
    """The worst there is: all weights as large as can be, all activations at an end."""
    weight = np.full((rows, 33), sign * 0.7, np.float32)
    weight[::3] = sign * 0.1
    weight[:, ::5] = matrix(4, (rows, 7)) * 10
    values = rounded(weight).values.astype(np.int64)
    first, second = values[0 : rows // 2 * 2 : 2], values[1 : rows // 2 * 2 : 2]
    assert np.abs(first + second)[(first > 0) == (second > 0)].max() <= PAIR
    ends = np.random.default_rng(5).choice(np.uint8([0, 128, 255]), (40, rows))
    ends[0], ends[1] = 255, 0
    found = product(ends, rounded(weight).values)
    assert (found == (ends.astype(np.int64) - 128) @ values).all()


def product(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The integer sums of onnxruntime's product of bytes around 128 with signed bytes."""
    node = helper.make_node("MatMulInteger", ["x", "w", "z"], ["y"])
    graph = helper.make_graph(
        [node], "product",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.uint8(128), "z")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]

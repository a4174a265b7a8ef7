"""What rounding costs an output, on rows that a product really reads."""

import numpy as np
import pytest

from edge_runtime.engines.calibrate.outputs import ROWS, Outputs, Rows
from edge_runtime.engines.calibrate.scheme import TABLE
from edge_runtime.engines.calibrate.smoothing import factors

RANDOM = np.random.default_rng(5)


def normal(*shape, spread=1.0):
    return RANDOM.normal(0, spread, shape).astype(np.float32)


@pytest.fixture
def outputs():
    weights = {"linear.weight": normal(24, 40), "conv.weight": normal(8, 6, 7)}
    weights[TABLE] = normal(5000, 24)
    rows = Rows(weights)
    for _ in range(3):
        rows.seen("linear.weight", normal(100, 24))
        rows.seen("conv.weight", normal(300, 6))
        rows.seen(TABLE, normal(20, 24))
    return Outputs(weights, rows.kept)


@pytest.mark.parametrize("name", ["linear.weight", "conv.weight", TABLE])
def test_a_range_that_fits_costs_little_and_others_much(outputs, name) -> None:
    fits = outputs.error(name, 4.5)
    assert 1e-6 < fits < 3e-4
    assert outputs.error(name, 45.0) > 20 * fits
    assert outputs.error(name, 0.45) > 100 * fits


def test_a_convolution_is_measured_as_it_is_computed() -> None:
    weight, sound = normal(2, 1, 3), normal(9, 1)
    outputs = Outputs({"conv.weight": weight}, {"conv.weight": [sound]})
    _, wanted = outputs._exact("conv.weight")
    by_hand = np.array(
        [[(weight[o, 0] * sound[at : at + 3, 0]).sum() for o in range(2)] for at in range(7)]
    )
    np.testing.assert_allclose(wanted, by_hand, atol=1e-5)


def test_factors_help_where_a_channel_sticks_out() -> None:
    x = normal(64, 16)
    x[:, 3] *= 60
    weight = normal(16, 32)
    outputs = Outputs({"a.weight": weight}, {"a.weight": [x]})
    plain = outputs.error("a.weight", float(np.abs(x).max()))
    largest = np.abs(x).max(axis=0)
    found = factors("a.weight", largest, weight)
    outputs.smooth("a.weight", found)
    assert outputs.error("a.weight", float((largest / np.array(found)).max())) < plain / 4
    outputs.smooth("a.weight", ())
    assert outputs.error("a.weight", float(np.abs(x).max())) == plain


def test_rows_come_from_the_middle_and_are_few() -> None:
    rows = Rows({"a.weight": normal(4, 4), "c.weight": normal(4, 1, 9)})
    rows.seen("a.weight", np.arange(400, dtype=np.float32).reshape(100, 4))
    (piece,) = rows.kept["a.weight"]
    assert piece.shape == (ROWS, 4)
    assert piece[0, 0] == 4 * ((100 - ROWS) // 2)
    rows.seen("c.weight", normal(8, 1))  # shorter than the kernel
    assert "c.weight" not in rows.kept
    assert Outputs({}, {}).error("never seen", 1.0) is None

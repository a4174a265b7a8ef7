"""Percentiles, means and shares of small samples."""

import pytest

from edge_runtime.bench.percentile import mean, percentile, share


def test_percentiles_lie_on_a_line_between_ranks():
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([10.0, 20.0], 95) == pytest.approx(19.5)
    assert percentile([7.0], 99) == 7.0


def test_nothing_has_no_percentile():
    assert percentile([], 50) is None
    assert mean([]) is None
    assert share(1, 0) is None


def test_mean_and_share():
    assert mean([1.0, 2.0, 6.0]) == 3.0
    assert share(3, 4) == 75.0

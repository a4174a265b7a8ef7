"""What the largest value of a tensor may be taken to be: four families of methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.calibrate.ranges.histogram import BINS, LEVELS, Histogram

_COARSE = 2048
_STRIDE = 8
_FINEST = 40


def candidates(histogram: Histogram) -> dict[str, float]:
    """The absolute maximum that each method takes; the histogram must not be empty."""
    return {method: take(histogram) for method, take in METHODS.items()}


def min_max(histogram: Histogram) -> float:
    """The largest magnitude seen: nothing is clipped."""
    return histogram.absmax


def percentile(histogram: Histogram, q: float) -> float:
    """The magnitude that q percent of the values which are not zero do not exceed."""
    below = np.cumsum(histogram.counts)
    wanted = q / 100 * below[-1]
    at = int(np.searchsorted(below, wanted))
    inside = (wanted - (below[at] - histogram.counts[at])) / histogram.counts[at]
    return min(float(at + inside) * histogram.limit / BINS, histogram.absmax)


def square_error(histogram: Histogram, levels: int = LEVELS) -> float:
    """The maximum of the least mean square error, of those at 2^(-k/8) of the largest value."""
    tried = [histogram.absmax * 2.0 ** (-k / 8) for k in range(_FINEST + 1)]
    best: float = min(tried, key=lambda absmax: histogram.error(absmax, levels))
    return best


def entropy(histogram: Histogram, levels: int = LEVELS + 1) -> float:
    """The maximum whose quantised distribution loses the least information.

    Source: S. Migacz, "8-bit Inference with TensorRT", GPU Technology Conference 2017,
    slides 38 to 41. For i bins of 2048, P is the distribution with all that lies beyond bin i
    put into it, Q is that of the first i bins alone, in `levels` equal parts, each spread
    evenly over its bins that are not empty; i of the least Kullback-Leibler divergence of P
    from Q is taken. Here i goes in steps of 8, from the largest value down.
    """
    counts = histogram.counts.reshape(_COARSE, -1).sum(axis=1).astype(np.float64)
    used = int(np.flatnonzero(counts)[-1]) + 1
    best, least = histogram.absmax, np.inf
    for i in range(used, levels - 1, -_STRIDE):
        lost = _divergence(counts[:i], float(counts[i:].sum()), levels)
        if lost < least:
            best, least = i * histogram.limit / _COARSE, lost
    return min(best, histogram.absmax)


def _divergence(counts: NDArray[np.float64], beyond: float, levels: int) -> float:
    """Of the distribution that is kept from the one that `levels` can say, in nats."""
    full = counts > 0
    starts = np.arange(levels) * len(counts) // levels
    sums = np.add.reduceat(counts, starts)
    filled = np.add.reduceat(full.astype(np.float64), starts)
    means = np.divide(sums, filled, out=np.zeros(levels), where=filled > 0)
    spread = np.where(full, np.repeat(means, np.diff([*starts, len(counts)])), 0.0)
    kept = counts.copy()
    kept[-1] += beyond
    if kept[-1] and not spread[-1]:
        return float("inf")
    some = kept > 0
    p = kept[some] / kept.sum()
    return float((p * np.log(p / (spread[some] / spread.sum()))).sum())


METHODS: Mapping[str, Callable[[Histogram], float]] = MappingProxyType(
    {
        "min-max": min_max,
        "percentile 99.999": partial(percentile, q=99.999),
        "percentile 99.99": partial(percentile, q=99.99),
        "percentile 99.9": partial(percentile, q=99.9),
        "entropy": entropy,
        "square error": square_error,
    }
)
"""Each gives a maximum, never above the largest value seen, of a histogram that is not empty.

In the order in which they win a tie: what clips least comes first.
"""

"""The magnitudes of a tensor's values, counted as they stream by, in memory that stays the same."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import CalibrationError

BINS = 8192
"""Of equal width, over [0, limit): at least half of them are in use."""

LEVELS = 127
"""Steps of signed 8-bit values on either side of zero."""

_LIMIT_MIN = 2.0**-100


class Histogram:
    """Counts of |x| over [0, `limit`), exact, and the same for any order of the arrays.

    `limit` is a power of two that grows with the largest value; growing joins whole bins, so
    that no count is ever estimated. Exact zeros are counted apart and are in no bin: padding
    adds any number of them, and every scale writes them exactly. `low` and `high` are the
    signed extremes, `square` the float64 sum of x².
    """

    def __init__(self) -> None:
        self.counts: NDArray[np.int64] = np.zeros(BINS, np.int64)
        self.limit = 0.0
        self.zeros = 0
        self.low = math.inf
        self.high = -math.inf
        self.square = 0.0

    @property
    def absmax(self) -> float:
        """The largest magnitude seen, 0 before any."""
        return max(-self.low, self.high, 0.0)

    @property
    def nonzero(self) -> int:
        """How many values are in the bins."""
        return int(self.counts.sum())

    @property
    def edges(self) -> NDArray[np.float64]:
        """(BINS + 1,) where bins begin and end."""
        return np.arange(BINS + 1, dtype=np.float64) * np.float64(self.limit / BINS)

    def add(self, array: NDArray[np.float32]) -> None:
        """Count all values of an array of any shape. Raises `CalibrationError` for NaN, infinity.

        Nothing is counted then.
        """
        if not array.size:
            return
        low, high = float(array.min()), float(array.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise CalibrationError("there are values that are NaN or infinite")
        self.low, self.high = min(self.low, low), max(self.high, high)
        values = np.abs(array[array != 0])
        self.zeros += array.size - values.size
        if not values.size:
            return
        self._widen(max(-low, high))
        # a power of two: the product is exact, and always below BINS
        bins = (values * np.float32(BINS / self.limit)).astype(np.intp)
        self.counts += np.bincount(bins, minlength=BINS)
        self.square += float(np.square(values, dtype=np.float64).sum())

    def beyond(self, absmax: float) -> float:
        """The share, 0 to 1, of the values that are not zero and larger than this."""
        total = self.nonzero
        if not total or absmax >= self.absmax:
            return 0.0
        place = absmax / self.limit * BINS
        whole = int(place)
        inside = float(self.counts[:whole].sum() + (place - whole) * self.counts[whole])
        return 1.0 - inside / total

    def error(self, absmax: float, levels: int = LEVELS) -> float:
        """Mean square error of rounding to 2 × `levels` + 1 steps over ±`absmax`, over mean x².

        Values count as spread evenly over their bins, and the integral over each is exact: up
        to the value u, in steps, rounding to n costs n/12 + (u - n)³/3, and clipping at L
        costs (u - L)³/3 more than L/12.
        """
        step = absmax / levels
        u = self.edges / step
        n = np.floor(u + 0.5)
        cost = np.where(u <= levels, n / 12 + (u - n) ** 3 / 3, levels / 12 + (u - levels) ** 3 / 3)
        width = self.limit / BINS / step
        total = float((self.counts * np.diff(cost)).sum()) / width * step**2
        return total / self.square

    def coarse(self, bins: int) -> tuple[list[int], float]:
        """The same in at most that many bins (a power of two), and where the last of them ends.

        What lies above the largest value is left out: at least half of the bins remain.
        """
        counts = self.counts.reshape(bins, -1).sum(axis=1)
        used = int(np.flatnonzero(counts)[-1]) + 1 if counts.any() else 0
        return counts[:used].tolist(), used * self.limit / bins

    def _widen(self, top: float) -> None:
        """Make room for a value: a limit above it, a power of two."""
        needed = max(2.0 ** math.frexp(top)[1], _LIMIT_MIN)
        if not self.limit:
            self.limit = needed
        while self.limit < needed:
            joined = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.concatenate([joined, np.zeros(BINS // 2, np.int64)])
            self.limit *= 2

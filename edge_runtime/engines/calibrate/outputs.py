"""What rounding costs the output of one product, measured on rows that it really reads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.calibrate.quantise import roundings
from edge_runtime.engines.calibrate.rounding import Rounded
from edge_runtime.engines.calibrate.scheme import LARGEST, TABLE, Product, Scheme, steps
from edge_runtime.engines.calibrate.sites import as_matrix

ROWS = 24
"""What is kept of each clip: rows of a product, windows of a convolution."""

COLUMNS = 4096
"""Outputs that are measured at most, spread evenly: a table has tens of thousands."""

Floats = NDArray[np.float32]


class Rows:
    """A few rows in a row, from the middle of every clip, of what each product reads."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        self._weights = weights
        self.kept: dict[str, list[Floats]] = {}

    def seen(self, name: str, array: Floats) -> None:
        """Take some of (rows, channels)."""
        kernel = _kernel(self._weights[name])
        wanted = kernel + (ROWS - 1) * _hop(kernel)
        first = max(0, (len(array) - wanted) // 2)
        piece = array[first : first + wanted]
        if len(piece) >= kernel:
            self.kept.setdefault(name, []).append(piece.copy())


class Outputs:
    """The error of products with ranges and factors that are tried, and their weights in 8 bits.

    `rows` are those of `Rows`, whatever is kept of them.
    """

    def __init__(self, weights: Mapping[str, Floats], rows: Mapping[str, list[Floats]]) -> None:
        self._weights = weights
        self._rows = rows
        self._smooth: dict[str, tuple[float, ...]] = {}
        self._rounded: dict[tuple[str, bool], Rounded] = {}
        self._wanted: tuple[str, Floats, Floats] | None = None

    def smooth(self, name: str, factors: tuple[float, ...]) -> None:
        """Divide what the product reads by these from now on, and multiply its weights."""
        self._rounded.pop((name, True), None)
        self._smooth[name] = factors

    def rounded(self, name: str) -> Rounded:
        """The product's weights in 8 bits."""
        factors = self._smooth.get(name, ())
        key = (name, bool(factors))
        if key not in self._rounded:
            scheme = Scheme(products={name: Product(smooth=factors)})
            self._rounded[key] = roundings({name: self._weights[name]}, scheme)[name]
        return self._rounded[key]

    def error(self, name: str, absmax: float) -> float | None:
        """Mean square of the output's error over that of the output; None where nothing is kept.

        `absmax` is the largest magnitude of the activation, over its factors, that does not clip.
        """
        if not self._rows.get(name):
            return None
        windows, wanted = self._exact(name)
        factors = np.array(self._smooth.get(name) or [1.0], np.float32)
        smooth = windows / np.tile(factors, windows.shape[1] // len(factors))
        scale = steps(absmax)
        x: Floats = np.clip(np.rint(smooth / scale), -LARGEST, LARGEST) * scale
        found = self.rounded(name)
        columns = _spread(found.values.shape[1])
        weights = found.values[:, columns] * found.scales[columns]
        lost = np.square(x @ weights - wanted, dtype=np.float64).sum()
        power = np.square(wanted, dtype=np.float64).sum()
        return float(lost / power) if power else None

    def _exact(self, name: str) -> tuple[Floats, Floats]:
        """(n, in) of what the product reads, (n, out) of what it should give; those of the last."""
        if self._wanted is None or self._wanted[0] != name:
            weight = self._weights[name]
            matrix = weight.T if name == TABLE else as_matrix(weight)
            kernel = _kernel(weight)
            windows = np.concatenate([_windows(rows, kernel) for rows in self._rows[name]])
            self._wanted = (name, windows, windows @ matrix[:, _spread(matrix.shape[1])])
        return self._wanted[1:]


def _kernel(weight: Floats) -> int:
    return int(weight.shape[2]) if weight.ndim == 3 else 1


def _hop(kernel: int) -> int:
    return max(1, kernel // 2)


def _spread(columns: int) -> slice:
    return slice(None, None, max(1, columns // COLUMNS))


def _windows(rows: Floats, kernel: int) -> Floats:
    """(n, kernel · channels) of (rows, channels), as `as_matrix` orders them."""
    if kernel == 1:
        return rows
    looked = np.lib.stride_tricks.sliding_window_view(rows, kernel, axis=0)[:: _hop(kernel)]
    return np.ascontiguousarray(looked.transpose(0, 2, 1)).reshape(len(looked), -1)

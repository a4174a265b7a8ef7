"""What all tensors were seen to hold, kept across an interruption."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.calibrate.ranges.histogram import Histogram
from edge_runtime.errors import CalibrationError


class Observed:
    """Histograms by the names of tensors, in the order in which they first came."""

    def __init__(self) -> None:
        self.histograms: dict[str, Histogram] = {}

    def seen(self, name: str, array: NDArray[np.float32]) -> None:
        """Count a tensor's values. Raises `CalibrationError` naming it for NaN and infinity."""
        histogram = self.histograms.setdefault(name, Histogram())
        try:
            histogram.add(array)
        except CalibrationError as error:
            raise CalibrationError(
                f"the tensor {name} overflows: {error.message}",
                "Keep it in float32: it cannot be given a range.",
            ) from error

    def save(self, path: Path) -> None:
        """Write all of it to a file; what was there is replaced at once or not at all."""
        kept = list(self.histograms.values())
        new = path.with_name(path.name + ".new")
        with new.open("wb") as file:
            np.savez(
                file,
                names=np.array(list(self.histograms), np.str_),
                counts=np.array([each.counts for each in kept], np.int64),
                zeros=np.array([each.zeros for each in kept], np.int64),
                reals=np.array(
                    [(each.limit, each.low, each.high, each.square) for each in kept], np.float64
                ),
            )
        new.replace(path)

    @classmethod
    def load(cls, path: Path) -> Observed:
        """What `save` wrote, bit for bit."""
        observed = cls()
        with np.load(path, allow_pickle=False) as file:
            rows = zip(file["names"], file["counts"], file["zeros"], file["reals"], strict=True)
            for name, counts, zeros, (limit, low, high, square) in rows:
                histogram = observed.histograms[str(name)] = Histogram()
                histogram.counts = counts.copy()
                histogram.zeros = int(zeros)
                histogram.limit, histogram.square = float(limit), float(square)
                histogram.low, histogram.high = float(low), float(high)
        return observed

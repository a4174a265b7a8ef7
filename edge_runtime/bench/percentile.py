"""Percentiles of small samples, by linear interpolation between ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def percentile(values: Sequence[float], q: float) -> float | None:
    """The q-th percentile (0…100), or None of nothing."""
    return float(np.percentile(np.asarray(values, dtype=np.float64), q)) if len(values) else None


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean, or None of nothing."""
    return float(np.mean(np.asarray(values, dtype=np.float64))) if len(values) else None


def share(part: float, whole: float) -> float | None:
    """Percent, or None of nothing."""
    return 100.0 * part / whole if whole else None

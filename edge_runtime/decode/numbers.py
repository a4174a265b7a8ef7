"""Answers of a device that are no numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable

from edge_runtime.errors import DeviceError


def refused(logprobs: Iterable[float]) -> DeviceError | None:
    """Why such log-probabilities are not believed; None where all are finite."""
    if all(map(math.isfinite, logprobs)):
        return None
    return DeviceError(
        "the device answered with NaN or infinity",
        "Where it comes again, run `edge-runtime doctor` and restart the server.",
    )

"""One range for each tensor: the candidate that costs its operation the least."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from edge_runtime.engines.calibrate.ranges.candidates import METHODS
from edge_runtime.engines.calibrate.ranges.histogram import LEVELS, Histogram
from edge_runtime.errors import CalibrationError


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tensor's values are written in steps of `scale` over ±`absmax`.

    `candidates` are the maxima of all methods and `errors` what each costs: of the
    operation's output where `by_output`, else the tensor's own mean square error over its
    mean square. `method` is the cheapest.
    """

    absmax: float
    method: str
    candidates: dict[str, float]
    errors: dict[str, float]
    by_output: bool = False

    @property
    def scale(self) -> float:
        return self.absmax / LEVELS


def choose(
    histograms: Mapping[str, Histogram],
    error: Callable[[str, float], float | None] | None = None,
    methods: Sequence[str] = tuple(METHODS),
) -> dict[str, Range]:
    """A range for each tensor, in the order of the histograms.

    `error(name, absmax)` measures the error of the operation's output with that range, any
    measure that is smaller for better; None where it cannot be had. Of equal candidates the
    first of `methods` is taken. Raises `CalibrationError` naming the tensors that hold one
    value only.
    """
    _refuse_constant(histograms)
    return {name: _chosen(name, seen, error, methods) for name, seen in histograms.items()}


def _chosen(
    name: str,
    histogram: Histogram,
    error: Callable[[str, float], float | None] | None,
    methods: Sequence[str],
) -> Range:
    found = {method: METHODS[method](histogram) for method in methods}
    own = {method: histogram.error(absmax) for method, absmax in found.items()}
    measured: dict[str, float] = {}
    if error is not None:
        for method, absmax in found.items():
            cost = error(name, absmax)
            if cost is not None and math.isfinite(cost):
                measured[method] = cost
    by_output = len(measured) == len(found)
    errors = measured if by_output else own
    method = min(found, key=lambda each: errors[each])
    return Range(found[method], method, found, errors, by_output)


def _refuse_constant(histograms: Mapping[str, Histogram]) -> None:
    constant = [name for name, seen in histograms.items() if not seen.low < seen.high]
    if not constant:
        return
    shown = ", ".join(_described(name, histograms[name]) for name in constant[:5])
    more = f" and {len(constant) - 5} more" if len(constant) > 5 else ""
    raise CalibrationError(
        f"{len(constant)} tensors never changed over all audio: {shown}{more}",
        "Calibrate with recordings of speech; silence alone gives no ranges.",
    )


def _described(name: str, histogram: Histogram) -> str:
    if histogram.low > histogram.high:
        return f"{name} (never seen)"
    return f"{name} (always {histogram.low:g})"

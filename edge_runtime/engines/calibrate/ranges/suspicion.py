"""Ranges that audio which they never saw contradicts: a calibration that must be refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edge_runtime.engines.calibrate.ranges.candidates import METHODS
from edge_runtime.engines.calibrate.ranges.choose import Range
from edge_runtime.engines.calibrate.ranges.histogram import Histogram
from edge_runtime.errors import CalibrationError

FACTOR = 4.0
"""How far a range may be from what the same method finds on other audio."""

CLIPPED = 0.01
"""The largest share of values that a range may cut off."""


@dataclass(frozen=True)
class Suspicion:
    """A tensor's range, and what other audio says about it."""

    name: str
    why: str


def suspicious(
    ranges: Mapping[str, Range],
    reference: Mapping[str, Histogram],
    factor: float = FACTOR,
    clipped: float = CLIPPED,
) -> list[Suspicion]:
    """The tensors whose ranges do not fit hold-out audio, in the order of `ranges`.

    A range is suspicious when it is more than `factor` wider or narrower than what its own
    method takes on the hold-out's values, or cuts off more than the share `clipped` of them.
    A narrower one must also cost `factor`² of the error, so that one outlier in the
    hold-out accuses nobody.
    """
    found = []
    for name, chosen in ranges.items():
        why = _why(chosen, reference.get(name), factor, clipped)
        if why:
            found.append(Suspicion(name, why))
    return found


def refuse(found: list[Suspicion], tensors: int) -> None:
    """Raises `CalibrationError` naming the suspicious ones of so many tensors, if there are any."""
    if not found:
        return
    shown = "; ".join(f"{each.name}: {each.why}" for each in found[:5])
    more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
    raise CalibrationError(
        f"the ranges of {len(found)} of {tensors} tensors do not fit audio that they never saw: "
        f"{shown}{more}",
        "Calibrate with recordings of speech like what the device will hear.",
    )


def _why(chosen: Range, seen: Histogram | None, factor: float, clipped: float) -> str:
    if seen is None or not seen.nonzero:
        return "never seen with other audio"
    theirs = METHODS[chosen.method](seen)
    ratio = chosen.absmax / theirs
    if ratio > factor:
        return f"±{chosen.absmax:.3g} is {ratio:.1f} × what other audio asks for (±{theirs:.3g})"
    share = seen.beyond(chosen.absmax)
    if share > clipped:
        return f"±{chosen.absmax:.3g} cuts off {100 * share:.1f} % of the values of other audio"
    if ratio < 1 / factor and seen.error(chosen.absmax) > factor**2 * seen.error(theirs):
        return f"other audio reaches {1 / ratio:.1f} × as far as ±{chosen.absmax:.3g}"
    return ""

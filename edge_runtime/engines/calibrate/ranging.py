"""The scale of every product's activation: seen, smoothed, chosen, held against other audio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge_runtime.engines.calibrate import smoothing
from edge_runtime.engines.calibrate.clips import Clip
from edge_runtime.engines.calibrate.material import Material, spread
from edge_runtime.engines.calibrate.observe import Observer, Seen
from edge_runtime.engines.calibrate.outputs import Outputs, Rows
from edge_runtime.engines.calibrate.ranges import Observed, Range, choose, refuse, suspicious
from edge_runtime.engines.calibrate.scheme import Product, step
from edge_runtime.engines.calibrate.smoothing import Channels, absorbed, divided
from edge_runtime.engines.calibrate.watch import Watch
from edge_runtime.engines.calibrate.work import EVERY, Arrays, Work
from edge_runtime.engines.calibrate.write import Floats
from edge_runtime.errors import CalibrationError

LOOKED = 24
"""Clips whose channels decide what is smoothed."""

REFERENCE = 12
"""Clips of the hold-out that ranges are held against."""

WORTH = 0.5
"""What smoothing must leave of an output's error where it costs time: no norm takes the factors."""

COARSE = 4e-3
"""The mean square error of an output, over its own mean square, from which that is thought of."""

Smooth = dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class Ranging:
    """The products in 8 bits, what their ranges come from, and why they cannot be right, if so."""

    products: dict[str, Product]
    ranges: dict[str, Range]
    observed: Observed
    refused: tuple[str, ...] = ()


class Ranger:
    """Each step is kept, and taken up where it was left."""

    def __init__(
        self, full: Floats, observer: Observer, material: Material, work: Work, watch: Watch
    ) -> None:
        """`full` are the graphs that `observer` runs."""
        self._full = full
        self._observer = observer
        self._material = material
        self._work = work
        self._watch = watch

    def __call__(self) -> Ranging:
        """Products, ranges, and what speaks against them."""
        channels, rows = self._channels()
        outputs = Outputs(self._full.weights, rows)
        smooth = self._work.kept("smooth.json", Smooth, lambda: self._smooth(channels, outputs))
        for name, factors in smooth.items():
            outputs.smooth(name, factors)
        observed = self._observed("ranges", self._material.parts.ranges, smooth)
        few = spread(self._material.parts.holdout, REFERENCE)
        reference = self._observed("reference", few, smooth)
        try:
            ranges = self._work.kept(
                "ranges.json", dict[str, Range], lambda: self._chosen(observed, outputs)
            )
        except CalibrationError as error:
            return Ranging({}, {}, observed, (error.message,))
        products = {
            name: Product(scale=step(each.absmax), smooth=smooth.get(name, ()))
            for name, each in ranges.items()
        }
        return Ranging(products, ranges, observed, _refused(ranges, reference))

    def _channels(self) -> tuple[Channels, dict[str, list[Any]]]:
        few = spread(self._material.parts.ranges, LOOKED)
        told = self._watch.telling("looking at channels", len(few))

        def look() -> Arrays:
            channels, rows = Channels(), Rows(self._full.weights)

            def seen(name: str, array: Any) -> None:
                channels.seen(name, array)
                rows.seen(name, array)

            for number, clip in enumerate(few):
                self._observe(clip, seen)
                told(number + 1)
            found = {f"largest {name}": array for name, array in channels.largest.items()}
            for name, pieces in rows.kept.items():
                found |= {f"rows {name} {number}": each for number, each in enumerate(pieces)}
            return found

        channels, rows = Channels(), dict[str, list[Any]]()
        for key, array in self._work.arrays("channels.npz", look).items():
            kind, name, *_ = key.split(" ")
            if kind == "largest":
                channels.largest[name] = array
            else:
                rows.setdefault(name, []).append(array)
        return channels, rows

    def _smooth(self, channels: Channels, outputs: Outputs) -> Smooth:
        """Factors for the products whose output comes out better with them."""
        full = self._full
        free = set().union(*(absorbed(model, full.weights) for model in full.graphs.values()))
        told = self._watch.telling("choosing what to smooth", len(channels.largest))
        found: Smooth = {}
        for number, (name, largest) in enumerate(channels.largest.items()):
            plain = outputs.error(name, float(largest.max()))
            factors = smoothing.factors(name, largest, full.weights[name])
            reach = float((largest / np.array(factors, np.float32)).max())
            outputs.smooth(name, factors)
            smooth = outputs.error(name, reach)
            if _better(plain, smooth, free=name in free):
                found[name] = factors
            else:
                outputs.smooth(name, ())
            told(number + 1)
        return found

    def _observed(self, name: str, clips: Sequence[Clip], smooth: Smooth) -> Observed:
        """What the clips' activations hold, over their factors; kept every few clips."""
        step = "counting values" + (" of the hold-out" if name == "reference" else "")
        told = self._watch.telling(step, len(clips))
        done = len(clips)
        while done and not self._work.has(f"{name}.{done}.npz"):
            done -= 1
        kept = self._work.folder / f"{name}.{done}.npz"
        observed = Observed.load(kept) if done else Observed()
        seen = divided(observed.seen, smooth)
        for number, clip in list(enumerate(clips, 1))[done:]:
            self._observe(clip, seen)
            told(number)
            if number % EVERY == 0 or number == len(clips):
                self._work.write(f"{name}.{number}.npz", observed.save)
                self._work.drop(f"{name}.{done}.npz")
                done = number
        told(len(clips))
        return observed

    def _chosen(self, observed: Observed, outputs: Outputs) -> dict[str, Range]:
        done, told = 0, self._watch.telling("choosing ranges", len(observed.histograms))
        last = ""

        def error(name: str, absmax: float) -> float | None:
            nonlocal done, last
            if name != last:
                done, last = done + 1, name
                told(done)
            return outputs.error(name, absmax)

        return choose(observed.histograms, error)

    def _observe(self, clip: Clip, seen: Seen) -> None:
        for samples, tokens in self._material.said(clip):
            self._observer(samples, tokens, seen)


def _better(plain: float | None, smooth: float | None, *, free: bool) -> bool:
    """Whether an output's error with factors is worth what they cost."""
    if plain is None or smooth is None:
        return False
    return smooth < plain if free else plain > COARSE and smooth < WORTH * plain


def _refused(ranges: dict[str, Range], reference: Observed) -> tuple[str, ...]:
    try:
        refuse(suspicious(ranges, reference.histograms), len(ranges))
    except CalibrationError as error:
        return (error.message,)
    return ()

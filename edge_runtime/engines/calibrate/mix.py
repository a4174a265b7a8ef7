"""The search over a real model: groups measured, mixes written and heard, the cheapest taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from edge_runtime.engines.calibrate import scheme as schemes
from edge_runtime.engines.calibrate.answers import Moved, moved
from edge_runtime.engines.calibrate.clips import Clip
from edge_runtime.engines.calibrate.gate import Outcome, judge
from edge_runtime.engines.calibrate.groups import group
from edge_runtime.engines.calibrate.material import Material, spread
from edge_runtime.engines.calibrate.options import Options
from edge_runtime.engines.calibrate.scheme import Product, Scheme
from edge_runtime.engines.calibrate.search import Ranked, Search, Tried
from edge_runtime.engines.calibrate.texts import Text, Writer
from edge_runtime.engines.calibrate.trial import Spoken, Trial
from edge_runtime.engines.calibrate.watch import Watch
from edge_runtime.engines.calibrate.work import Work
from edge_runtime.engines.recipe import TiledRecipe
from edge_runtime.engines.weights import Weights
from edge_runtime.errors import CalibrationError

HEARD = 12
"""Clips of the ranges' part that mixes are measured by, and the groups by the first few."""

JUDGED = 40
"""Clips of the ranges' part whose texts tell whether a mix does."""


@dataclass(frozen=True)
class Mix:
    """The scheme that was chosen and the folder of its graphs; the mixes that were tried, the
    last of which it is, all groups, the costliest first, and the ranges that were moved."""

    scheme: Scheme
    graphs: Path
    tried: tuple[Tried, ...]
    ranked: tuple[Ranked, ...]
    moved: tuple[Moved, ...]


class Mixer:
    """Every measurement is kept, and not made again after an interruption."""

    def __init__(
        self, recipe: TiledRecipe, material: Material, options: Options, work: Work,
        watch: Watch,
    ) -> None:  # fmt: skip
        self._recipe = recipe
        self._material = material
        self._options = options
        self._work = work
        self._watch = watch

    def __call__(
        self, arrays: Weights, vocabulary: Sequence[str], products: dict[str, Product]
    ) -> Mix:
        """The cheapest mix that does, of `products` in 8 bits with their ranges.

        Raises `CalibrationError` where the recordings hold no text.
        """
        trial = Trial(self._recipe, arrays, _spoken(self._material))
        search = self._search(trial, products)
        measured = self._ranked(search, "measuring groups", "group")
        better = self._moved(trial, products, measured)
        products = products | {each.name: each.product for each in better}
        search = self._search(trial, products)
        changed = {group(each.name) for each in better}
        same = {each.name: each for each in measured if each.name not in changed}
        ranked = self._ranked(search, "measuring groups again", "group-again", same)
        rungs = search.rungs(ranked)
        told = self._watch.telling("trying mixes", len(rungs))

        def graphs(rung: int) -> Path:
            scheme = search.scheme(rungs[rung])

            def write(folder: Path) -> None:
                trial.write(scheme, folder)
                (folder / "vocabulary.json").write_bytes(msgspec.json.encode(vocabulary))
                (folder / schemes.FILE).write_bytes(schemes.encode(scheme))

            return self._work.fill(f"rung-{rung}", write)

        def judged(rung: int, scheme: Scheme) -> tuple[float, bool]:
            clips = spread(self._material.parts.ranges, JUDGED)
            said = outcomes(self._material, clips, texts(graphs(rung), self._material, clips))
            return lost(said, self._options.max_wer_increase)

        def kept(rung: int, make: Callable[[], Tried]) -> Tried:
            found = self._work.kept(f"rung-{rung}.json", Tried, make)
            told(rung + 1)
            return found

        tried = search.descend(rungs, judged, kept)
        told(len(rungs))
        chosen = len(tried) - 1
        return Mix(
            search.scheme(rungs[chosen]), graphs(chosen), tuple(tried), tuple(ranked),
            tuple(better),
        )  # fmt: skip

    def _search(self, trial: Trial, products: dict[str, Product]) -> Search:
        return Search(trial, products, trial.full.weights, self._options.target)

    def _ranked(
        self, search: Search, step: str, file: str, known: Mapping[str, Ranked] | None = None
    ) -> list[Ranked]:
        """All groups, but for `known` ones measured under the names of `step` and `file`."""
        known, numbers = known or {}, {name: number for number, name in enumerate(search.groups)}

        def kept(name: str, make: Callable[[], Ranked]) -> Ranked:
            if name in known:
                return known[name]
            return self._work.kept(f"{file}-{numbers[name]}.json", Ranked, make)

        return search.rank(kept, self._watch.telling(step, len(search.groups)))

    def _moved(
        self, trial: Trial, products: dict[str, Product], ranked: Sequence[Ranked]
    ) -> list[Moved]:
        numbers = {name: number for number, name in enumerate(products)}

        def kept(name: str, make: Callable[[], Moved]) -> Moved:
            return self._work.kept(f"moved-{numbers[name]}.json", Moved, make)

        return moved(trial, products, ranked, kept, partial(self._watch.telling, "moving ranges"))


def lost(said: Sequence[Outcome], allowed: float) -> tuple[float, bool]:
    """The points of word error rate that a mix costs, and whether that may be.

    Where the interval reaches zero words cannot tell the loss from luck, one more or less of
    several hundred decides: then the likelihood of the texts does, which the search asks anyway.
    """
    verdict = judge(said, allowed)
    if verdict.low <= 0:
        verdict = judge(said, max(allowed, verdict.increase))
    return verdict.increase, verdict.passed


def texts(graphs: Path, material: Material, clips: Sequence[Clip]) -> dict[str, Text]:
    """What graphs write of clips, by name: of the turns that the unquantised model wrote."""
    writer = Writer(graphs, material.longest)
    return {
        clip.name: writer.text(clip.samples, material.texts[clip.name].windows) for clip in clips
    }


def outcomes(material: Material, clips: Sequence[Clip], written: dict[str, Text]) -> list[Outcome]:
    """Both texts of each clip, side by side."""
    return [
        Outcome(
            clip.name,
            clip.seconds,
            material.texts[clip.name].text,
            written[clip.name].text,
            clip.transcript,
        )
        for clip in clips
    ]


def _spoken(material: Material) -> list[Spoken]:
    """Turns with text, those of clips that are far apart first."""
    said = [clip for clip in material.parts.ranges if material.texts[clip.name].text]
    if not said:
        raise CalibrationError(
            "the unquantised model writes nothing of the recordings that ranges come from",
            "Add recordings of speech in the model's language.",
        )
    few = spread(said, HEARD)
    mixed = [clip for first in range(3) for clip in few[first::3]]
    turns = [turn for clip in mixed for turn in material.said(clip)]
    return [Spoken(samples, tokens) for samples, tokens in turns if tokens]

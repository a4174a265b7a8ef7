"""The search over a real model: groups measured, mixes written and heard, the cheapest taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from edge_runtime.engines.calibrate import scheme as schemes
from edge_runtime.engines.calibrate.clips import Clip
from edge_runtime.engines.calibrate.gate import Outcome, judge
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
    last of which it is, and all groups, the costliest first."""

    scheme: Scheme
    graphs: Path
    tried: tuple[Tried, ...]
    ranked: tuple[Ranked, ...]


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
        search = Search(trial, products, trial.full.weights, self._options.target)
        ranked = search.rank(self._measured(search), self._watch.telling(
            "measuring groups", len(search.groups)))  # fmt: skip
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
            verdict = judge(said, self._options.max_wer_increase)
            return verdict.increase, verdict.passed

        def kept(rung: int, make: Callable[[], Tried]) -> Tried:
            found = self._work.kept(f"rung-{rung}.json", Tried, make)
            told(rung + 1)
            return found

        tried = search.descend(rungs, judged, kept)
        told(len(rungs))
        chosen = len(tried) - 1
        return Mix(search.scheme(rungs[chosen]), graphs(chosen), tuple(tried), tuple(ranked))

    def _measured(self, search: Search) -> Callable[[str, Callable[[], Ranked]], Ranked]:
        numbers = {name: number for number, name in enumerate(search.groups)}
        return lambda name, make: self._work.kept(f"group-{numbers[name]}.json", Ranked, make)


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

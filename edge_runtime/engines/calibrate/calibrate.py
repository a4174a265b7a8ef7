"""A model rounded to 8 bits by its owner's recordings: measured, searched, judged, installed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.config import Guarding, Listening
from edge_runtime.engines import variant, variants
from edge_runtime.engines import weights as readers
from edge_runtime.engines.calibrate import extra, report, summary
from edge_runtime.engines.calibrate.believing import Belief, believe
from edge_runtime.engines.calibrate.clips import Clips, load
from edge_runtime.engines.calibrate.costs import SECONDS, Cost, measure
from edge_runtime.engines.calibrate.ears import Ears
from edge_runtime.engines.calibrate.gate import Verdict, judge
from edge_runtime.engines.calibrate.material import Material, gather, spread
from edge_runtime.engines.calibrate.mix import Mix, Mixer, outcomes
from edge_runtime.engines.calibrate.observe import Observer
from edge_runtime.engines.calibrate.options import Options
from edge_runtime.engines.calibrate.ranging import Ranger, Ranging
from edge_runtime.engines.calibrate.report import Report
from edge_runtime.engines.calibrate.room import Room, study
from edge_runtime.engines.calibrate.scheme import TABLE
from edge_runtime.engines.calibrate.texts import Text, Writer
from edge_runtime.engines.calibrate.watch import Watch
from edge_runtime.engines.calibrate.work import Work
from edge_runtime.engines.calibrate.write import floats
from edge_runtime.engines.export import shape
from edge_runtime.engines.recipe import TiledRecipe, load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.engines.vocabulary import read_vocabulary
from edge_runtime.engines.weights import Weights

DETECTOR = "silero-vad"

STUDIED = 40
"""Recordings that the voice detector's threshold comes from, at most."""

REFUSED = "refused"
"""The folder of a model for the report of what was not installed."""

HEARD = "clips.txt"
"""The recordings that a calibration heard, one a line: a bench leaves them out."""

COSTS = "costs.json"
"""What was timed: with the page, all that differs between two runs."""


@dataclass(frozen=True)
class Result:
    """What came of it: `installed` is the variant's folder, None where it was refused.

    `timed` is `report` with times; without a `mix` the search was not begun.
    """

    report: Report
    timed: Report
    page: Path
    installed: Path | None
    mix: Mix | None = None


def calibrate(
    recipe: TiledRecipe, store: Store, options: Options, watch: Watch | None = None
) -> Result:
    """Calibrate a model of the store, or say why not; nothing is installed then.

    An interrupted run is taken up again by the next one of the same input. Raises
    `MissingExtra`, `ModelMissing`, `ModelDamaged`, `StoreUnwritable`, and `CalibrationError`
    for recordings that do not do.
    """
    extra.check()
    watch = watch or Watch()
    with store.lock(f"{recipe.name}.calibrate", watch.waiting):
        return _Calibration(recipe, store, options, watch).run()


class _Calibration:
    """One run: its steps in order."""

    def __init__(self, recipe: TiledRecipe, store: Store, options: Options, watch: Watch) -> None:
        """Reads the recordings, and finds what an interrupted run has left."""
        self._recipe, self._store = recipe, store
        self._options, self._watch = options, watch
        self._original = store.graphs(recipe)
        self._weights = store.weights(recipe)
        self._ears = Ears(store.graphs(load_recipe(DETECTOR)) / "vad.onnx")
        clips = self._clips()
        self._work = Work(store, recipe.name, self._inputs(clips))
        if self._work.continued:
            watch.said("a calibration of the same input was interrupted, and is continued")
        self._material = self._gathered(clips)
        for warning in self._material.warnings:
            watch.said(warning)

    def run(self) -> Result:
        ranging = self._ranging()
        made = summary.report(
            self._recipe.name, self._material, self._options, ranging, self._room()
        )
        if ranging.refused and not (self._options.force and ranging.products):
            return self._refused(made, made, None)
        mixer = Mixer(self._recipe, self._material, self._options, self._work, self._watch)
        mix = mixer(self._arrays, read_vocabulary(self._weights), ranging.products)
        verdict, belief = self._judged(mix.graphs)
        made = summary.judged(made, mix, verdict, belief, self._original, force=self._options.force)
        costs = self._timed(mix.graphs)
        timed = summary.with_costs(made, costs)
        if not (made.passed or made.forced):
            return self._refused(made, timed, mix)
        return self._installed(made, timed, mix, costs, belief)

    # -- before anything is measured

    def _clips(self) -> Clips:
        options, told = self._options, self._watch.telling("reading the recordings", 1)
        found = load(
            options.audio, options.transcripts, speech=self._ears.seconds, least=options.least
        )
        told(1)
        return found.decodable()

    def _inputs(self, clips: Clips) -> Iterator[bytes]:
        """All that the outcome depends on."""
        options = self._options
        yield self._store.fingerprint(self._recipe, "fp32").encode()
        yield f"{options.target} {options.max_wer_increase} {options.holdout}".encode()
        yield json.dumps(summary.versions()).encode()
        for source in sorted(Path(__file__).parent.rglob("*.py")):
            yield source.read_bytes()
        for clip in clips:
            yield json.dumps([clip.name, clip.transcript, clip.speaker, clip.chapter]).encode()
            yield clip.samples.tobytes()

    def _gathered(self, clips: Clips) -> Material:
        told = self._watch.telling("writing their texts", len(clips))
        writer = Writer(self._original, max(len(clip.samples) for clip in clips))
        return gather(clips, self._options.holdout, self._ears, writer, self._work, told)

    @cached_property
    def _arrays(self) -> Weights:
        return readers.read(self._recipe, self._weights)

    # -- what is measured

    def _ranging(self) -> Ranging:
        full = floats(self._recipe, self._arrays)
        observer = Observer(full.graphs, full.weights[TABLE], shape(self._recipe))
        return Ranger(full, observer, self._material, self._work, self._watch)()

    def _judged(self, graphs: Path) -> tuple[Verdict, Belief]:
        """Of the hold-out, which nothing so far has looked at but to doubt ranges."""
        parts, known = self._material.parts, self._material.texts
        told = self._watch.telling("judging", len(parts.holdout))
        writer = Writer(graphs, self._material.longest)
        samples = {clip.name: clip.samples for clip in parts.holdout}

        def write(name: str) -> Text:
            return writer.text(samples[name], known[name].windows)

        texts = self._work.each("judged.json", Text, samples, write, told)
        said = outcomes(self._material, parts.holdout, texts)
        pairs = [
            (before.logprob, after.logprob)
            for clip in parts.holdout
            if not clip.speechless
            for before, after in zip(known[clip.name].turns, texts[clip.name].turns, strict=True)
        ]
        return judge(said, self._options.max_wer_increase, share=parts.share), believe(pairs)

    def _timed(self, graphs: Path) -> dict[str, list[Cost]]:
        told = self._watch.telling("timing", len(SECONDS))
        sound = max(self._material.parts.ranges, key=lambda clip: clip.seconds).samples
        chains = {
            summary.ORIGINAL: Writer(self._original, RATE).chain,
            summary.CHOSEN: Writer(graphs, RATE).chain,
        }
        return measure(chains, sound, told)

    def _room(self) -> Room:
        """A recording of the room counts beside those in which nobody speaks."""
        few = spread(self._material.clips.clips, STUDIED)
        empty = [self._ears.heard(clip.samples) for clip in few if clip.speechless]
        speech = [self._ears.heard(clip.samples) for clip in few if not clip.speechless]
        if self._options.room is not None:
            room = load(self._options.room, least=0.0)
            empty += [self._ears.heard(clip.samples) for clip in room]
        return study(empty, speech)

    # -- what comes of it

    def _refused(self, made: Report, timed: Report, mix: Mix | None) -> Result:
        folder = self._options.report or self._store.root / self._recipe.name / REFUSED
        page = self._written(made, timed, folder)
        self._work.clear()
        return Result(made, timed, page, None, mix)

    def _installed(
        self,
        made: Report,
        timed: Report,
        mix: Mix,
        costs: Mapping[str, list[Cost]],
        belief: Belief,
    ) -> Result:
        room, settings = made.room, {}
        if room is not None and room.threshold != Listening().threshold:
            settings["listening.threshold"] = room.threshold
        if belief.threshold != Guarding().mean_logprob:
            settings["guarding.mean_logprob"] = belief.threshold
        info = variant.describe(
            self._store, self._recipe, mix.scheme, made.verdict, forced=made.forced,
            settings=settings,
        )  # fmt: skip
        heard = sorted({clip.source for clip in self._material.clips})

        def fill(folder: Path) -> None:
            told = self._watch.telling("writing the report", 1)
            for path in sorted(mix.graphs.iterdir()):
                shutil.copyfile(path, folder / path.name)
            report.write(made, folder, self._sounds(made), timed)
            (folder / HEARD).write_text("".join(f"{name}\n" for name in heard), encoding="utf-8")
            (folder / COSTS).write_bytes(msgspec.json.format(msgspec.json.encode(costs)) + b"\n")
            told(1)

        installed = variants.install(
            self._store, self._recipe, info, fill, candidate=self._options.candidate
        )
        page = installed / report.HTML
        if self._options.report is not None:
            page = self._written(made, timed, self._options.report)
        self._work.clear()
        return Result(made, timed, page, installed, mix)

    def _written(self, made: Report, timed: Report, folder: Path) -> Path:
        told = self._watch.telling("writing the report", 1)
        with self._store.writing():
            folder.mkdir(parents=True, exist_ok=True)
            page = report.write(made, folder, self._sounds(made), timed)
        told(1)
        return page

    def _sounds(self, made: Report) -> dict[str, Samples]:
        """Of the clips that can be played in the page."""
        worst = made.verdict.worst if made.verdict else ()
        names = {each.outcome.name for each in worst}
        return {clip.name: clip.samples for clip in self._material.clips if clip.name in names}

"""What sessions say of clips in virtual time, in which an update takes what its form was measured
to take: nothing waits, and no other work on the machine shows.

A form that is quicker is asked more often, so that more of its words are stable before their
final. What of the text is lost to that, and what in the finals themselves, is told apart by the
free decode of a final that stable text contradicted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from edge_runtime.audio import FRAME, RATE
from edge_runtime.audio.ring import Ring, Samples
from edge_runtime.bench import stability
from edge_runtime.bench.manifest import Manifest, spread
from edge_runtime.bench.percentile import share
from edge_runtime.bench.take import Arrival, Take
from edge_runtime.config import Config
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.engines.calibrate.calibrate import COSTS, DETECTOR
from edge_runtime.engines.calibrate.costs import Cost
from edge_runtime.engines.calibrate.ears import Ears
from edge_runtime.engines.calibrate.gate import Outcome, judge
from edge_runtime.engines.calibrate.summary import CHOSEN, ORIGINAL
from edge_runtime.engines.calibrate.texts import Writer
from edge_runtime.engines.recipe import MoonshineRecipe, load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.session import Options, Session, longest
from precisions.forms import FLOAT, Forms

SILENCE = 2 * RATE
"""What follows a clip, so that its last turn ends."""

Said = Callable[[str], None]
Costs = Mapping[str, Sequence[Cost]]


class Clock:
    """Seconds that an update takes, between the lengths of audio that were measured."""

    def __init__(self, costs: Sequence[Cost], slower: float = 1.0) -> None:
        """`slower`: times as long, as beside other streams."""
        self._lengths = [cost.seconds for cost in costs]
        self._times = np.array([(cost.encode, cost.draft, cost.step) for cost in costs])
        self._scale = slower / 1000

    def __call__(self, hypothesis: Hypothesis) -> float:
        update, cost = hypothesis.update, hypothesis.cost
        seconds = (update.end - update.start) / RATE
        encode, draft, step = (np.interp(seconds, self._lengths, each) for each in self._times.T)
        encode *= min(1.0, seconds / self._lengths[0])
        checked = draft if cost.drafted else 0.0
        return float(self._scale * (encode + checked + cost.steps * step))


class Lane:
    """Decodes one update at a time, and delivers it when its time is over."""

    def __init__(self, runner: Runner, clock: Clock) -> None:
        self._runner, self._clock = runner, clock
        self._flight: Hypothesis | None = None
        self.done = 0.0
        self.partials = 0

    def until(self, now: float, session: Session) -> list[Arrival]:
        """What comes of all that ends by `now`; what the session wants then is begun."""
        found: list[Arrival] = []
        begin = now
        while self._flight is None or self.done <= now:
            if self._flight is not None:
                begin = self.done
                found += [Arrival(begin, event) for event in session.accept(self._flight)]
                self._flight = None
            update = session.take()
            if update is None:
                break
            self._begin(update, session.ring, begin)
        return found

    def _begin(self, update: Update, ring: Ring, at: float) -> None:
        (said,) = self._runner.run([update], [ring.pieces(update.start, update.end)])
        took = self._clock(said)
        self.done = at + took
        self.partials += update.purpose is Purpose.PARTIAL
        self._flight = replace(said, cost=replace(said.cost, encode=took, draft=0.0, decode=0.0))


def play(
    name: str, samples: Samples, probabilities: Sequence[float], writer: Writer, clock: Clock
) -> tuple[Take, int]:
    """One clip in a session of its own, and its partials that were decoded.

    `probabilities` are the voice detector's of each frame of (n,) samples.
    """
    config = Config()
    session = Session(name, writer.model, config, Options(), Ring(2 * longest(config)))
    lane, arrivals, now = Lane(writer.runner, clock), [], 0.0
    for number, probability in enumerate(probabilities):
        now = (number + 1) * FRAME / RATE
        arrivals += _at(now, session.feed(samples[number * FRAME : (number + 1) * FRAME]))
        arrivals += _at(now, session.heard(probability))
        arrivals += lane.until(now, session)
    arrivals += _at(now, session.stop())
    while not session.closed:
        arrivals += lane.until(now, session)
        now = max(now, lane.done)
    return Take(name, len(samples) / RATE, tuple(arrivals)), lane.partials


def streamed(
    store: Store, recipe: MoonshineRecipe, clips: Manifest, variant: Path | None, quick: int,
    costs: Path | None, slower: float, said: Said,
) -> list[dict[str, Any]]:  # fmt: skip
    """One row for float32, one for the calibrated variant, both with the gates of the defaults.

    `costs` is another file like the variant's own `costs.json`.
    """
    make = Forms(store, recipe, Path(), variant)
    folders = {ORIGINAL: make(FLOAT).folder, CHOSEN: make("int8").folder}
    content = (costs or folders[CHOSEN] / COSTS).read_bytes()
    times = msgspec.json.decode(content, type=dict[str, list[Cost]])
    ears = Ears(store.graphs(load_recipe(DETECTOR)) / "vad.onnx")
    speech = spread(clips.clean, quick)
    rows: list[dict[str, Any]] = []
    full: list[Take] = []
    for name, folder in folders.items():
        said(f"{name}: {len(speech)} clips")
        writer, clock = Writer(folder, longest(Config())), Clock(times[name], slower)
        takes, partials = [], 0
        for clip in speech:
            samples = np.concatenate([clip.pcm, np.zeros(SILENCE, np.float32)])
            heard = ears.heard(samples).probabilities.tolist()
            take, decoded = play(clip.name, samples, heard, writer, clock)
            takes.append(take)
            partials += decoded
        full = full or takes
        rows.append(
            {
                "name": name,
                **_row([clip.reference for clip in speech], full, takes),
                "partials": partials,
            }
        )
    return rows


def _row(references: Sequence[str], full: Sequence[Take], takes: Sequence[Take]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for what, text in (("finals", lambda take: take.text), ("free", _free)):
        verdict = judge(
            [
                Outcome(take.clip, take.seconds, text(other), text(take), reference)
                for reference, other, take in zip(references, full, takes, strict=True)
            ]
        )
        row |= {"clips": verdict.clips, "words": verdict.words}
        row[what] = {
            "wer": round(verdict.wer_quantised, 3),
            "increase": round(verdict.increase, 3),
            "low": round(verdict.low, 3),
            "high": round(verdict.high, 3),
            "changed": verdict.changed,
        }
    firm = stability.of(takes)
    stable = share(firm.stable, firm.words)
    row |= {"stable": stable and round(stable, 2), "contradicted": firm.conflicts}
    return row


def _free(take: Take) -> str:
    """The finals as they would be without stable text."""
    texts = [
        final.text if final.alternative is None else final.alternative for _, final in take.finals
    ]
    return " ".join(text.strip() for text in texts if text.strip())


def _at(now: float, events: Sequence[Any]) -> list[Arrival]:
    return [Arrival(now, event) for event in events]

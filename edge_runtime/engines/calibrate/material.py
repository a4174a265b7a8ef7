"""The recordings of a calibration with what the unquantised model makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from edge_runtime.audio.ring import Samples
from edge_runtime.engines.calibrate.clips import Clip, Clips
from edge_runtime.engines.calibrate.ears import Ears
from edge_runtime.engines.calibrate.split import Split, split
from edge_runtime.engines.calibrate.texts import Text, Writer
from edge_runtime.engines.calibrate.transcripts import doubtful
from edge_runtime.engines.calibrate.work import Work

T = TypeVar("T")


@dataclass(frozen=True)
class Material:
    """All clips, both parts of them, the unquantised model's text of each by name.

    `warnings` are for the owner of the recordings.
    """

    clips: Clips
    parts: Split
    texts: dict[str, Text]
    warnings: tuple[str, ...]

    @property
    def longest(self) -> int:
        """Samples of the longest clip."""
        return max(len(clip.samples) for clip in self.clips)

    def said(self, clip: Clip) -> Iterator[tuple[Samples, tuple[int, ...]]]:
        """The samples of each turn of a clip, and the unquantised model's tokens of it.

        A clip in which nobody speaks comes whole, without any: a detector may be deceived.
        """
        turns = self.texts[clip.name].turns
        if not turns:
            yield clip.samples, ()
        for turn in turns:
            yield clip.samples[slice(*turn.window)], turn.tokens


def gather(
    clips: Clips,
    holdout: float,
    ears: Ears,
    writer: Writer,
    work: Work,
    told: Callable[[int], None],
) -> Material:
    """Split the clips, write their texts, doubt transcripts that are of other audio.

    `told` hears how many texts are written. Raises `CalibrationError`.
    """
    parts = split(clips.clips, holdout)
    samples = {clip.name: clip.samples for clip in clips}

    def write(name: str) -> Text:
        return writer.text(samples[name], ears.windows(samples[name], writer.model))

    texts = work.each("texts.json", Text, samples, write, told)
    given = {clip.name: clip.transcript for clip in clips if clip.transcript}
    doubts = doubtful(given, {name: text.text for name, text in texts.items()})
    warnings = list(clips.warnings)
    warnings += [
        f"{each.name}: its transcript does not match, {each.rate:.0f} % word errors; left out"
        for each in doubts
    ]
    if parts.shared:
        warnings.append(
            f"{', '.join(parts.shared[:5])} speak in both parts: no other split was near the share"
        )
    sure = clips.without_transcripts(each.name for each in doubts)
    by_name = {clip.name: clip for clip in sure}
    parts = replace(parts, ranges=_of(parts.ranges, by_name), holdout=_of(parts.holdout, by_name))
    return Material(sure, parts, texts, tuple(warnings))


def spread(items: Sequence[T], most: int) -> tuple[T, ...]:
    """At most that many, evenly over the sequence."""
    if len(items) <= most:
        return tuple(items)
    return tuple(items[i * len(items) // most] for i in range(most))


def _of(clips: Sequence[Clip], by_name: dict[str, Clip]) -> tuple[Clip, ...]:
    return tuple(by_name[clip.name] for clip in clips)

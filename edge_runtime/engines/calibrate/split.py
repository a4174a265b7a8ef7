"""Which clips ranges come from, and which the result is judged on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edge_runtime.engines.calibrate.clips import Clip
from edge_runtime.errors import CalibrationError


@dataclass(frozen=True)
class Split:
    """Two parts without a clip in common, each in the order of names.

    `shared` are the speakers who are on both sides because no other split came near the
    share that was asked for.
    """

    ranges: tuple[Clip, ...]
    holdout: tuple[Clip, ...]
    shared: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """The part of all seconds that is held out."""
        held = sum(clip.seconds for clip in self.holdout)
        return held / (held + sum(clip.seconds for clip in self.ranges))


_LEVELS: tuple[Callable[[Clip], str], ...] = (
    lambda clip: clip.speaker or clip.chapter or clip.source,
    lambda clip: clip.chapter or clip.source,
    lambda clip: clip.source,
    lambda clip: clip.name,
)
"""What stays together, most first: all of a speaker, of a chapter, of a recording, a piece."""


def split(clips: Sequence[Clip], holdout: float = 0.3, seed: int = 0) -> Split:
    """Hold out about that share of the seconds, the same clips for the same seed and names.

    All clips of a speaker stay together where that gives from half to twice the share, else
    those of a chapter, of a recording, at last single pieces. Clips that are known to be
    speechless are split apart from the others; a single one is held out, because the gate
    needs it more. Raises `CalibrationError` for a share that is not between 0.05 and 0.9, and
    when one side would have no speech.
    """
    if not 0.05 <= holdout <= 0.9:
        raise CalibrationError(
            f"a hold-out of {holdout} leaves one part without audio", "Choose one from 0.05 to 0.9."
        )
    ordered = sorted(clips, key=lambda clip: clip.name)
    speech = [clip for clip in ordered if not clip.speechless]
    rest = [clip for clip in ordered if clip.speechless]
    if len(speech) < 2:
        raise CalibrationError(
            f"{len(speech)} recordings of speech cannot be split in two",
            "Add more recordings; one long recording is cut where it comes without transcript.",
        )
    random = np.random.default_rng(seed)
    held = _held(speech, holdout, random)
    held |= _held(rest, holdout, random) if len(rest) > 1 else {clip.name for clip in rest}
    ours = tuple(clip for clip in ordered if clip.name not in held)
    theirs = tuple(clip for clip in ordered if clip.name in held)
    both = {clip.speaker for clip in ours} & {clip.speaker for clip in theirs} - {""}
    return Split(ours, theirs, tuple(sorted(both)))


def _held(clips: Sequence[Clip], share: float, random: np.random.Generator) -> set[str]:
    total = sum(clip.seconds for clip in clips)
    found: set[str] = set()
    for level in _LEVELS:
        groups: dict[str, list[Clip]] = defaultdict(list)
        for clip in clips:
            groups[level(clip)].append(clip)
        found = _nearest(list(groups.values()), share * total, random)
        got = sum(clip.seconds for clip in clips if clip.name in found) / total
        if len(found) < len(clips) and share / 2 <= got <= min(2 * share, (1 + share) / 2):
            break
    return found


def _nearest(groups: list[list[Clip]], wanted: float, random: np.random.Generator) -> set[str]:
    """Names in groups, taken in random order whenever that comes nearer to the wanted seconds."""
    taken: list[list[Clip]] = []
    have = 0.0
    for index in random.permutation(len(groups)):
        seconds = sum(clip.seconds for clip in groups[index])
        if abs(have + seconds - wanted) < abs(have - wanted) and len(taken) + 1 < len(groups):
            taken.append(groups[index])
            have += seconds
    if not taken:
        taken.append(min(groups, key=lambda group: sum(clip.seconds for clip in group)))
    return {clip.name for group in taken for clip in group}

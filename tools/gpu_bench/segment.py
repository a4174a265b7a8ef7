"""Eight seconds of a clip in a mapped ring, and the 25 tokens that an update has of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Ring, Samples
from edge_runtime.decode.update import Hypothesis
from gpu_bench.bed import SECONDS, Bed
from gpu_bench.reference import Clip, Clips

DRAFT, NEW = 25, 4
SAMPLES = SECONDS * RATE
_TRIED = 12
_RING = 30 * RATE


@dataclass(frozen=True)
class Segment:
    """`draft` is what is known, `whole` all that is said; the audio wraps round its ring."""

    clip: Clip
    pieces: tuple[Samples, ...]
    draft: tuple[int, ...]
    whole: tuple[int, ...]

    @property
    def new(self) -> int:
        """Tokens that an update finds."""
        return len(self.whole) - len(self.draft)

    @property
    def note(self) -> str:
        return f"{self.clip.id}, {SECONDS} s, {len(self.draft)} draft tokens, {self.new} new"

    def update(self, bed: Bed) -> Hypothesis:
        """The update: draft checked, the new tokens found."""
        return bed.decode(self.pieces, self.draft)

    def first(self, bed: Bed) -> Hypothesis:
        """The same until its first new token."""
        return bed.decode(self.pieces, self.draft, limit=len(self.draft) + 1)

    @classmethod
    def choose(cls, bed: Bed, clips: Clips, clip: Clip | None = None) -> Segment:
        """Of `clip`, else of the one whose first eight seconds are nearest to 29 tokens."""
        tried = [clip] if clip is not None else likely(clips.all)
        found = [(each, bed.decode([_audio(clips, each)])) for each in tried]
        wanted = DRAFT + NEW
        best, said = min(found, key=lambda pair: abs(len(pair[1].tokens) - wanted))
        whole = said.tokens
        ring = Ring(bed.device.alloc((_RING,), np.float32, "mapped").host)
        ring.write(np.zeros(_RING - SAMPLES // 2, np.float32))
        start = ring.written
        ring.write(_audio(clips, best))
        pieces = tuple(ring.pieces(start, ring.written))
        return cls(best, pieces, whole[: max(0, len(whole) - NEW)], whole)


def likely(clips: tuple[Clip, ...], most: int = _TRIED) -> list[Clip]:
    """Long enough, and by their pace nearest to the wanted number of tokens; else any."""
    long = [clip for clip in clips if clip.samples >= SAMPLES] or list(clips)
    return sorted(long, key=lambda clip: abs(_expected(clip) - DRAFT - NEW))[:most]


def _audio(clips: Clips, clip: Clip) -> Samples:
    """Its first eight seconds, zeros behind a shorter one."""
    audio = np.zeros(SAMPLES, np.float32)
    audio[: min(clip.samples, SAMPLES)] = clips.audio(clip)[:SAMPLES]
    return audio


def _expected(clip: Clip) -> float:
    return len(clip.tokens) * min(1.0, SAMPLES / clip.samples)

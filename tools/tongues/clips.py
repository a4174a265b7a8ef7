"""Prompts joined to clips, by a rule that knows nothing of what a model makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.audio.file import FileSource
from edge_runtime.audio.ring import Samples
from tongues.prompts import Prompt

LEAST_WORDS = 5
"""Of a sentence. Prompts with digits, brackets or the same text as one before are left out."""

SHORTEST, LONGEST = 8.0, 15.0
"""Seconds of a clip: prompts follow each other until there are so many; longer ones are left."""

PAUSE = 0.4
"""Seconds of silence between prompts, beside what they have themselves."""


@dataclass
class Clip:
    """Prompts in a row: (samples,) float32 at 16 kHz, and their texts."""

    samples: Samples
    names: list[str] = field(default_factory=list)
    text: str = ""

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE


def clips(prompts: Iterable[Prompt], count: int, *, words: bool) -> Iterator[Clip]:
    """The first `count` of them, prompts in their order; `words` are joined as they are."""
    silence = np.zeros(round(PAUSE * RATE), np.float32)
    clip = Clip(np.zeros(0, np.float32))
    for prompt in _taken(prompts, words=words):
        samples = np.concatenate(list(FileSource(prompt.path)))
        joined = np.concatenate([clip.samples, silence, samples]) if clip.names else samples
        if len(joined) > LONGEST * RATE:
            continue
        clip = Clip(joined, [*clip.names, prompt.path.name], f"{clip.text} {prompt.text}".strip())
        if clip.seconds >= SHORTEST:
            yield clip
            clip, count = Clip(np.zeros(0, np.float32)), count - 1
            if not count:
                return


def _taken(prompts: Iterable[Prompt], *, words: bool) -> Iterator[Prompt]:
    seen = set()
    for prompt in prompts:
        text = prompt.text
        plain = len(text.split()) >= LEAST_WORDS and not any(
            letter.isdigit() or letter in "[]()<>" for letter in text
        )
        if words or (plain and text not in seen):
            seen.add(text)
            yield prompt

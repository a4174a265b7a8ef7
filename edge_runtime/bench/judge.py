"""The voice detector on many clips at once, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from edge_runtime.audio.ring import Samples
from edge_runtime.audio.vad import VoiceDetector, pieces
from edge_runtime.device import open_device
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.runtime.load import DETECTOR


def detector(rows: int) -> VoiceDetector:
    """For so many clips at a time. Raises `ModelMissing` when it was never pulled."""
    opened = open_device("cpu")
    program = opened.load(Store().graphs(load_recipe(DETECTOR)) / "vad.onnx")
    return VoiceDetector(program, opened, rows)


def judge(clips: Sequence[Samples]) -> list[list[float]]:
    """How probable speech is in each frame of each of these clips, float32 at 16 kHz.

    Raises `ModelMissing` when the detector was never pulled.
    """
    ears = detector(max(1, len(clips)))
    slots = [ears.open() for _ in clips]
    found: list[list[float]] = [[] for _ in clips]
    for turn in zip_longest(*map(pieces, clips)):
        due = [(row, piece) for row, piece in enumerate(turn) if piece is not None]
        answers = ears.hear([slots[row] for row, _ in due], [piece for _, piece in due])
        for (row, _), answer in zip(due, answers, strict=True):
            found[row] += answer
    return found

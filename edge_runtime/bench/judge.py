"""The voice detector on many clips at once, in this process."""

from __future__ import annotations

from collections.abc import Sequence

from edge_runtime.audio import FRAME
from edge_runtime.audio.ring import Samples
from edge_runtime.audio.vad import AT_ONCE, VoiceDetector
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
    most = AT_ONCE * FRAME
    for start in range(0, max(map(len, clips), default=0) - FRAME + 1, most):
        rows = [row for row, clip in enumerate(clips) if start + FRAME <= len(clip)]
        whole = [min(start + most, len(clips[row]) // FRAME * FRAME) for row in rows]
        answers = ears.hear(
            [slots[row] for row in rows],
            [clips[row][start:end] for row, end in zip(rows, whole, strict=True)],
        )
        for row, answer in zip(rows, answers, strict=True):
            found[row] += answer
    return found

"""faster-whisper in 8-bit integers behind its own voice detector, each segment decoded anew."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from faster_whisper import WhisperModel
from faster_whisper.vad import get_vad_model

from peering.player import PIECE, RATE, size

HOP = RATE
"""Audio between two partials: what programs that stream with it usually take."""

ENDPOINT = RATE // 2
"""Silence that ends a segment, as in ours."""

CAP = 28 * RATE
"""A segment is no longer: one window of the model."""

WINDOW = 31 * 512
"""Samples that the voice detector hears to judge the last of them."""

PAD = RATE * 2 // 5
"""Audio before the first speech of a segment, as in ours."""


class Whisper:
    """Partials are decoded greedily, finals as the library does by itself, in English.

    It may use every core, as by default; without timestamps, which are not compared.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._scratch = tempfile.TemporaryDirectory()
        folder = weights(names, Path(self._scratch.name))
        self.bytes = size(folder)
        self._model = WhisperModel(
            str(folder), device="cpu", compute_type="int8", cpu_threads=os.cpu_count() or 1
        )
        self._detector = get_vad_model()
        self.open = False

    def begin(self, *, partials: bool) -> None:
        """Another clip."""
        self._partials = partials
        self._audio = np.zeros(0, np.float32)  # of the segment, or what may be before one
        self._silent = 0  # samples since the last speech
        self._decoded = 0  # samples that the last partial had
        self.open = False

    def hear(self, samples: np.ndarray) -> Iterator[tuple[str, str]]:
        """See `Engine`."""
        late = len(samples) > PIECE
        for start in range(0, len(samples), PIECE):
            last = start + PIECE >= len(samples)
            yield from self._piece(samples[start : start + PIECE], partial=last or not late)

    def end(self) -> Iterator[tuple[str, str]]:
        """See `Engine`."""
        if self.open:
            yield self._final()

    def _piece(self, piece: np.ndarray, *, partial: bool) -> Iterator[tuple[str, str]]:
        self._audio = np.concatenate([self._audio, piece])
        if self._speech():
            self._silent = 0
            self.open = True
        else:
            self._silent += len(piece)
        if not self.open:
            self._audio = self._audio[-PAD - PIECE :]
        elif self._silent >= ENDPOINT or len(self._audio) >= CAP:
            yield self._final()
        elif self._partials and partial and len(self._audio) - self._decoded >= HOP:
            self._decoded = len(self._audio)
            yield "partial", self._text(beam=1)

    def _speech(self) -> bool:
        """Whether somebody speaks in the last piece."""
        heard = self._audio[-WINDOW:]
        heard = np.pad(heard, (-len(heard) % 512, 0))
        return bool(self._detector(heard)[-3:].max() > 0.5)

    def _final(self) -> tuple[str, str]:
        text = self._text(beam=5)
        self._audio, self._decoded, self.open = np.zeros(0, np.float32), 0, False
        return "final", text

    def _text(self, beam: int) -> str:
        segments, _ = self._model.transcribe(
            self._audio,
            language="en",
            beam_size=beam,
            without_timestamps=True,
            condition_on_previous_text=False,
        )
        return " ".join(segment.text.strip() for segment in segments)


def weights(names: Sequence[str], scratch: Path) -> Path:
    """A folder, or the files of packages side by side in `scratch`: `model.bin.part1` … joined."""
    if len(names) == 1 and Path(names[0]).is_dir():
        return Path(names[0])
    for name in names:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise SystemExit(f"there is no package {name}; pip install it")
        for path in sorted(Path(spec.origin).parent.rglob("*")):
            if path.is_file() and path.suffix != ".py" and "__pycache__" not in path.parts:
                _put(path, scratch)
    return scratch


def _put(path: Path, folder: Path) -> None:
    if ".part" not in path.name:
        (folder / path.name).symlink_to(path)
        return
    with (folder / path.name.partition(".part")[0]).open("ab") as whole, path.open("rb") as part:
        shutil.copyfileobj(part, whole)

"""A list of clips with their transcripts, in a tab-separated file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.errors import AudioError, ConfigError

CHAPTER = "7367-86737"  # forty consecutive utterances of one reader
MINI = "librispeech_mini"
_NEEDED = ("id", "path", "transcript")


@dataclass(frozen=True)
class Clip:
    """One recording: `reference` is its transcript, empty where nobody speaks."""

    name: str
    path: Path
    reference: str
    condition: str

    @property
    def noisy(self) -> bool:
        return self.condition.startswith("noisy")

    @property
    def speechless(self) -> bool:
        return self.condition.startswith("non-speech")

    @cached_property
    def pcm(self) -> Samples:
        """(samples,) float32, 16 kHz, mono; raises `AudioError`.

        Read without the package's own sources, so that a fault there shows.
        """
        import soundfile
        import soxr

        try:
            samples, rate = soundfile.read(self.path, dtype="float32", always_2d=True)
        except (OSError, soundfile.SoundFileError) as error:
            raise AudioError(
                f"{self.path} cannot be read: {error}", "Correct the manifest, or the file."
            ) from None
        mono = samples.mean(axis=1, dtype=np.float32)
        if rate != RATE:
            mono = soxr.resample(mono, rate, RATE)
        return np.ascontiguousarray(mono, dtype=np.float32)

    @property
    def seconds(self) -> float:
        return len(self.pcm) / RATE


@dataclass(frozen=True)
class Manifest:
    """All clips of a file, and the groups that the figures are made of."""

    path: Path
    clips: tuple[Clip, ...]

    def without(self, names: Iterable[str]) -> Manifest:
        """The same but for these recordings: ids, or names of files, in any folder."""
        left_out = {Path(name).stem for name in names}
        return replace(
            self,
            clips=tuple(
                clip
                for clip in self.clips
                if clip.name not in left_out and clip.path.stem not in left_out
            ),
        )

    @cached_property
    def clean(self) -> tuple[Clip, ...]:
        """The LibriSpeech mini clips; in another manifest, all speech that is not noisy."""
        mini = tuple(c for c in self.clips if c.path.parent.name.startswith(MINI))
        return mini or tuple(
            c for c in self.clips if c.reference and not c.noisy and not c.speechless
        )

    @cached_property
    def noisy(self) -> tuple[Clip, ...]:
        return tuple(c for c in self.clips if c.noisy and c.reference)

    @cached_property
    def speechless(self) -> tuple[Clip, ...]:
        return tuple(c for c in self.clips if c.speechless)

    @cached_property
    def chapter(self) -> tuple[Clip, ...]:
        """Consecutive utterances of one reader; in another manifest, the clean clips."""
        return tuple(c for c in self.clean if c.name.startswith(CHAPTER)) or self.clean


def read(path: Path) -> Manifest:
    """The manifest at `path`; its clips' paths are relative to it. Raises `ConfigError`.

    Needs the columns `id`, `path` and `transcript`; `condition` marks clips that
    are "noisy…" or "non-speech…".
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(
            f"the manifest {path} cannot be read: {getattr(error, 'strerror', None) or error}",
            "Name a tab-separated file with the columns id, path and transcript.",
        ) from None
    if not rows:
        raise ConfigError(f"the manifest {path} lists no clips", "Add a line for each clip.")
    missing = [column for column in _NEEDED if column not in rows[0]]
    if missing:
        raise ConfigError(
            f"the manifest {path} has no column {', '.join(missing)}",
            "Its first line must name the columns, separated by tabs.",
        )
    for number, row in enumerate(rows, 2):
        if not row["id"] or not row["path"]:
            raise ConfigError(
                f"line {number} of the manifest {path} has no id or no path",
                "Fill in both, separated by a tab, or remove the line.",
            )
    return Manifest(
        path,
        tuple(
            Clip(
                row["id"],
                path.parent / row["path"],
                row["transcript"] or "",
                row.get("condition") or "",
            )
            for row in rows
        ),
    )


def spread(clips: Sequence[Clip], count: int) -> tuple[Clip, ...]:
    """`count` of the clips, evenly spaced over the list; all of them when 0 or too many."""
    if not 0 < count < len(clips):
        return tuple(clips)
    return tuple(clips[i * len(clips) // count] for i in range(count))

"""The recordings that a model is calibrated with: found, read, named where they do not do."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.audio.file import FileSource
from edge_runtime.audio.quiet import quietest
from edge_runtime.audio.ring import Samples
from edge_runtime.engines.calibrate import transcripts
from edge_runtime.engines.calibrate.transcripts import Line, Transcripts
from edge_runtime.errors import AudioError, CalibrationError

LONGEST = 16.0
"""Seconds of a piece that a longer recording without transcript is cut into: a live segment's."""

LEAST = 1.0
"""The least minutes of speech to calibrate with: both parts of a split need some."""

LONGEST_TEXT = 40.0
"""Seconds of a recording that is decoded at once."""

MOST = 60.0
"""The most minutes that are read: more cost time and memory, and change nothing."""

SHORTEST = 0.1
"""Seconds under which a recording holds nothing to calibrate with."""

_SEARCH = 4 * RATE
_LIBRISPEECH = re.compile(r"(\d+)-(\d+)-\d{4}(?!\d)")
_ADD = "Add recordings like what the device will hear: ten minutes do, more is better."


@dataclass(frozen=True)
class Clip:
    """A recording, or a piece of one: `samples` (n,) float32 at 16 kHz.

    `transcript` is None where it is not known, and "" where nobody speaks. `speaker` and
    `chapter` are empty where neither a table nor a name like LibriSpeech's tells them;
    `source` is the same for all pieces of a recording.
    """

    name: str
    source: str
    samples: Samples = field(compare=False, repr=False)
    transcript: str | None = None
    speaker: str = ""
    chapter: str = ""

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE

    @property
    def speechless(self) -> bool:
        """Known to hold no speech."""
        return self.transcript == ""


@dataclass(frozen=True)
class Clips:
    """What a folder holds, in the order of names; `skipped` files with the reason for each."""

    clips: tuple[Clip, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Clip]:
        return iter(self.clips)

    def __len__(self) -> int:
        return len(self.clips)

    @property
    def speech(self) -> tuple[Clip, ...]:
        """All but those that are known to hold none."""
        return tuple(clip for clip in self.clips if not clip.speechless)

    @property
    def speechless(self) -> tuple[Clip, ...]:
        """Those in which nobody speaks."""
        return tuple(clip for clip in self.clips if clip.speechless)

    @property
    def seconds(self) -> float:
        return sum(clip.seconds for clip in self.clips)

    def decodable(self, most: float = LONGEST_TEXT) -> Clips:
        """The same clips, as far as each can be decoded at once.

        Of one that is longer than `most` seconds and speechless the beginning stays; one with
        a transcript is left out, for nothing says which words a piece of it has.
        """
        kept, skipped = [], list(self.skipped)
        for clip in self.clips:
            if clip.transcript and clip.seconds > most:
                said = f"is {clip.seconds:.0f} s long and has one transcript: {most:.0f} s do"
                skipped.append((clip.name, said))
            else:
                kept.append(replace(clip, samples=clip.samples[: int(most * RATE)]))
        return replace(self, clips=tuple(kept), skipped=tuple(skipped))

    def without_transcripts(self, names: Iterable[str]) -> Clips:
        """The same clips, as if no transcript had been given for these."""
        doubted = set(names)
        kept = (replace(c, transcript=None) if c.name in doubted else c for c in self.clips)
        return replace(self, clips=tuple(kept))


def load(
    folder: Path,
    table: Path | None = None,
    *,
    speech: Callable[[Samples], float] | None = None,
    least: float = LEAST,
    most: float = MOST,
) -> Clips:
    """The recordings in a folder and those below it (or one file), the same each time.

    `table` holds transcripts; `transcripts.read` says how they are found without it. `speech`
    gives the seconds of speech in (n,) samples; without it, all that is not known to be
    speechless counts. No more than `most` minutes are read, evenly from everywhere. Raises
    `CalibrationError` when there is nothing to read, or less than `least` minutes of speech.
    """
    known = transcripts.read(table, folder)
    paths = _files(folder, known)
    clips: list[Clip] = []
    skipped: list[tuple[str, str]] = []
    warnings: list[str] = []
    seen: dict[bytes, str] = {}
    heard = read = 0.0
    left = len(paths)
    for path in paths:
        if read >= most * 60:
            warnings.append(f"{left} more files were not read: {most:.0f} minutes are enough")
            break
        left -= 1
        name = path.name if path == folder else path.relative_to(folder).as_posix()
        line = known.of(path)
        try:
            samples, odd = _read(path, int(most * 60 * RATE))
        except AudioError as error:
            skipped.append((name, error.message.removeprefix(f"{path} ").rstrip(".")))
            continue
        twin = seen.setdefault(hashlib.sha256(samples.tobytes()).digest(), name)
        why = _useless(samples, line) or (f"is the same audio as {twin}" if twin != name else "")
        if why:
            skipped.append((name, why))
            continue
        read += len(samples) / RATE
        warnings += [f"{name}: {said}" for said in odd]
        clips += _pieces(_clip(name, path, samples, line))
        if line.text != "":
            heard += speech(samples) if speech else len(samples) / RATE
    _refuse(folder, clips, skipped, heard / 60, least)
    clips.sort(key=lambda clip: clip.name)
    warnings += [*_absent(known.unused(paths)), *_alone(clips)]
    return Clips(tuple(clips), tuple(sorted(skipped)), tuple(warnings))


def _files(folder: Path, known: Transcripts) -> list[Path]:
    """All that may be recordings: those with a transcript first, else in no order of names."""
    if not folder.exists():
        raise CalibrationError(f"there is no {folder}", "Name a folder with recordings.")
    if folder.is_file():
        return [folder]
    found = [path for path in folder.rglob("*") if path.is_file()]
    texts = {path.with_suffix(".txt") for path in found if path.suffix != ".txt"}
    if known.source:
        texts.add(known.source)
    names = {path: path.relative_to(folder).as_posix() for path in found if path not in texts}
    shown = [path for path, name in names.items() if not f"/{name}".count("/.")]

    def order(path: Path) -> tuple[bool, bytes]:
        return known.of(path).text is None, hashlib.sha256(names[path].encode()).digest()

    return sorted(shown, key=order)


def _read(path: Path, most: int) -> tuple[Samples, list[str]]:
    """At most that many samples of a file, and what was odd about it. Raises `AudioError`."""
    blocks = []
    count = 0
    with FileSource(path) as source:
        for block in source:
            blocks.append(block)
            count += len(block)
            if count >= most:
                break
        samples = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
        odd = list(source.warnings)
    if count >= most:
        odd.append(f"only its first {most / RATE / 60:.0f} minutes are used")
    return samples[:most], odd


def _useless(samples: Samples, line: Line) -> str:
    """Why a recording does not do; nothing when it does."""
    if not len(samples):
        return "holds no samples"
    if len(samples) < SHORTEST * RATE:
        return f"holds only {len(samples) / RATE:.3f} s"
    if line.text != "" and not samples.any():
        return "holds nothing but digital silence"
    return ""


def _clip(name: str, path: Path, samples: Samples, line: Line) -> Clip:
    ids = _LIBRISPEECH.match(path.stem)
    speaker, chapter = line.speaker, ""
    if ids:
        speaker, chapter = speaker or ids[1], f"{ids[1]}-{ids[2]}"
    return Clip(name, name, samples, line.text, speaker, chapter)


def _pieces(clip: Clip) -> list[Clip]:
    """The clip, cut where it is quiet if it is long and its text is not known."""
    longest = int(LONGEST * RATE)
    if clip.transcript is not None or len(clip.samples) <= longest:
        return [clip]
    cuts = [0]
    while (rest := len(clip.samples) - cuts[-1]) > longest:
        # what is left over must be a piece, too
        end = cuts[-1] + min(longest, rest - RATE)
        begin = end - _SEARCH
        cuts.append(begin + quietest(clip.samples[begin:end]))
    cuts.append(len(clip.samples))
    return [
        replace(
            clip,
            name=f"{clip.name} {a / RATE:07.2f}-{b / RATE:07.2f} s",
            samples=clip.samples[a:b],
        )
        for a, b in pairwise(cuts)
    ]


def _refuse(
    folder: Path, clips: list[Clip], skipped: list[tuple[str, str]], minutes: float, least: float
) -> None:
    if not clips and not skipped:
        raise CalibrationError(f"{folder} holds no files", _ADD)
    if not clips:
        shown = "; ".join(f"{name}: {why}" for name, why in sorted(skipped)[:3])
        raise CalibrationError(
            f"none of the {len(skipped)} files in {folder} is a recording that does ({shown})", _ADD
        )
    if minutes < least:
        raise CalibrationError(
            f"{folder} holds {minutes:.1f} minutes of speech, and at least {least:.1f} are needed",
            _ADD,
        )


def _absent(names: list[str]) -> list[str]:
    if not names:
        return []
    shown = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
    return [f"{len(names)} transcripts are of recordings that are not there: {shown}"]


def _alone(clips: list[Clip]) -> list[str]:
    """A warning where names or a table say that all speech is one speaker's; else no claim."""
    speakers = {clip.speaker for clip in clips if not clip.speechless}
    if len(speakers) != 1 or "" in speakers:
        return []
    return [
        f"all speech is of one speaker ({speakers.pop()}): ranges and gate say little about others"
    ]

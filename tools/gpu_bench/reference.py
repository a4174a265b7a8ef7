"""What the CPU says of every clip in float32: the tokens that a GPU is held against."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import msgspec
import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.bench import manifest
from edge_runtime.bench.hardware import hardware
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.errors import AudioError, ConfigError
from edge_runtime.runtime.load import Loader

_HINT = "Make it with: tools/gpu-bench reference MANIFEST OUT"


class Clip(msgspec.Struct, frozen=True):
    """One clip: `tokens` without marks, `margins` of each; `transcript` is what was said."""

    id: str
    file: str
    samples: int
    tokens: tuple[int, ...]
    margins: tuple[float, ...]
    ended: bool
    text: str
    transcript: str

    @property
    def seconds(self) -> float:
        return self.samples / RATE


class Reference(msgspec.Struct, frozen=True):
    """All clips, and what made the tokens."""

    model: str
    made: str
    clips: tuple[Clip, ...]


class Clips:
    """The clips of a reference with their audio, which lies in a folder by file name."""

    def __init__(self, reference: Path, folder: Path, quick: int = 0) -> None:
        """Raises `ConfigError` where the reference, or a clip's file, is not there."""
        self._folder = folder
        found = read(reference)
        self.model = found.model
        self.all = spread(found.clips, quick)
        self._audio: dict[str, Samples] = {}
        for clip in self.all:
            if not (folder / clip.file).is_file():
                raise ConfigError(
                    f"{folder / clip.file} does not exist", "Name their folder with --clips."
                )

    def audio(self, clip: Clip) -> Samples:
        """(samples,) float32, 16 kHz; raises `AudioError` where it is not what was decoded."""
        if clip.id not in self._audio:
            path = self._folder / clip.file
            pcm = manifest.Clip(clip.id, path, clip.transcript, "").pcm
            if len(pcm) != clip.samples:
                raise AudioError(
                    f"{path} has {len(pcm)} samples, the reference {clip.samples}", _HINT
                )
            self._audio[clip.id] = pcm
        return self._audio[clip.id]

    @cached_property
    def seconds(self) -> float:
        return sum(clip.seconds for clip in self.all)


def spread(clips: tuple[Clip, ...], count: int) -> tuple[Clip, ...]:
    """`count` of the clips, evenly spaced; all where 0."""
    if not 0 < count < len(clips):
        return clips
    return tuple(clips[i * len(clips) // count] for i in range(count))


def read(path: Path) -> Reference:
    """The file that `make` wrote; raises `ConfigError`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Reference)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", _HINT) from None
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path} is no reference: {error}", _HINT) from None


def make(
    source: Path,
    out: Path,
    model: str,
    copy: Path | None,
    quick: int = 0,
    said: Callable[[str], None] = print,
) -> Reference:
    """Decode the manifest's clean clips on the CPU into `out`, their files copied to `copy`.

    Raises what `Loader.load` raises, `ConfigError` for the manifest, `AudioError`.
    """
    clips = manifest.spread(manifest.read(source).clean, quick)
    longest = max(len(clip.pcm) for clip in clips)
    loaded = Loader(model, "cpu").load()
    runner = Runner(loaded.chain, Size(1, longest))
    found, began = [], time.monotonic()
    for number, clip in enumerate(clips, 1):
        update = Update(clip.name, 0, Purpose.FINAL, 0, len(clip.pcm))
        (hypothesis,) = runner.run([update], [[np.asarray(clip.pcm)]])
        found.append(
            Clip(
                clip.name,
                clip.path.name,
                len(clip.pcm),
                hypothesis.tokens,
                tuple(round(float(margin), 6) for margin in hypothesis.margins),
                hypothesis.ended,
                loaded.model.vocabulary.text(hypothesis.tokens),
                clip.reference,
            )
        )
        if copy is not None:
            copy.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(clip.path, copy / clip.path.name)
        if number % 10 == 0 or number == len(clips):
            said(f"{number} of {len(clips)} clips, {time.monotonic() - began:.0f} s")
    made = Reference(loaded.name, f"float32 on the CPU: {hardware().line()}", tuple(found))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(msgspec.json.encode(made) + b"\n")
    return made

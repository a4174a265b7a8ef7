"""Recordings that `calibrate` makes by itself, kept to be used again."""

from __future__ import annotations

from pathlib import Path

import typer

from edge_runtime.audio import RATE
from edge_runtime.audio.source import Source
from edge_runtime.cli.inputs import say_warnings
from edge_runtime.cli.progress import clock
from edge_runtime.errors import AudioError


def record(source: Source, folder: Path, seconds: float) -> Path:
    """The next `recorded-N.flac` of a folder: so many seconds of a source, or all it gives.

    What was heard before an interruption stays. Raises `AudioError` where it cannot be written.
    """
    import soundfile

    wanted = round(seconds * RATE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = _next(folder)
        with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16") as file:
            typer.echo(f"recording {clock(seconds)} to {path}: speak as you will", err=True)
            heard = 0
            for block in source:
                file.write(block[: wanted - heard])
                heard += len(block)
                if heard >= wanted:
                    break
    except (OSError, soundfile.SoundFileError) as error:
        raise AudioError(
            f"{folder} takes no recording: {error}", "Name a folder that can be written, with room."
        ) from error
    say_warnings(source)
    return path


def _next(folder: Path) -> Path:
    number = 1
    while (path := folder / f"recorded-{number:03}.flac").exists():
        number += 1
    return path

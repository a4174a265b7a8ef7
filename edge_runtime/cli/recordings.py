"""Recordings to transcripts, one after the other: a bad one is reported and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import typer

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.audio.source import Source
from edge_runtime.cli import report
from edge_runtime.cli.inputs import say_warnings
from edge_runtime.cli.output import Format, render
from edge_runtime.cli.progress import AudioProgress
from edge_runtime.errors import EdgeRuntimeError, StoreUnwritable
from edge_runtime.events import Final, SpeechEnd, SpeechStart
from edge_runtime.transcribe import Transcriber
from edge_runtime.transcript import Transcript

SUFFIXES: dict[Format, str] = {"text": ".txt", "json": ".json", "srt": ".srt", "vtt": ".vtt"}


def transcribe_all(
    transcriber: Transcriber,
    names: Sequence[str],
    opener: Callable[[str], Source],
    form: Format,
    folder: Path | None,
) -> int:
    """Write the transcript of each recording; returns how many could not be read."""
    failed = 0
    for name in names:
        try:
            with opener(name) as source:
                transcript = _transcript(transcriber, source)
            _write(transcript, form, folder, label=len(names) > 1)
        except EdgeRuntimeError as error:
            report(error, name)
            failed += 1
    return failed


def _transcript(transcriber: Transcriber, source: Source) -> Transcript:
    """Progress is what has been decoded, or read where nobody speaks: reading runs ahead."""
    heard = 0
    speaking = False
    finals = []

    def counted() -> Iterator[Samples]:
        nonlocal heard
        for block in source:
            yield block
            heard += len(block)
            if not speaking:
                bar.reached(heard / RATE)

    with AudioProgress(source.name, source.seconds) as bar:
        for event in transcriber.transcribe(counted()):
            if isinstance(event, SpeechStart | SpeechEnd):
                speaking = isinstance(event, SpeechStart)
            elif isinstance(event, Final):
                finals.append(event)
                bar.reached(event.end)
    say_warnings(source)
    return Transcript(source.name, heard / RATE, tuple(finals))


def _write(transcript: Transcript, form: Format, folder: Path | None, *, label: bool) -> None:
    if folder is None:
        typer.echo(render(transcript, form, label=label), nl=False)
        return
    path = folder / (Path(transcript.name).stem + SUFFIXES[form])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(render(transcript, form), encoding="utf-8")
    except OSError as error:
        raise StoreUnwritable(
            f"{path} cannot be written: {error.strerror}", "Name another folder with --output."
        ) from error

"""The audio that a command was told to hear: a file, a pipe or a microphone."""

from __future__ import annotations

import sys

import typer

from edge_runtime.audio.source import Source
from edge_runtime.events import Encoding

PIPE = "-"


def open_file(name: str) -> Source:
    """Raises `AudioError` when there is no such file, or it is not audio."""
    from edge_runtime.audio.file import FileSource

    return FileSource(name)


def open_pipe(encoding: Encoding, rate: int, channels: int) -> Source:
    """Raw samples from standard input; raises `AudioError` for a form that is not supported."""
    from edge_runtime.audio.raw import RawSource

    return RawSource(sys.stdin.buffer, encoding, rate, channels)


def open_microphone(name: str | None) -> Source:
    """The microphone of that name or index, else the default one; records from now on.

    Raises `MissingExtra` or `MicrophoneError`.
    """
    from edge_runtime.audio.microphone import Microphone

    return Microphone(name)


def say_warnings(source: Source) -> None:
    """Tell on standard error what was odd about a source that has been read."""
    for warning in source.warnings:
        typer.echo(f"warning: {warning}", err=True)

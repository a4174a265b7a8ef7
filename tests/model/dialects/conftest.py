"""The server with the real model, and clips, for clients as their makers wrote them."""

from __future__ import annotations

import csv
import io

import pytest
import soundfile

from edge_runtime.audio.file import FileSource
from edge_runtime.errors import ModelMissing
from edge_runtime.events import Closed, Final
from edge_runtime.transcribe import Transcriber
from edge_runtime.transcript import Transcript
from tests.model.server.conftest import DATA, clip, house, read

__all__ = ["clip", "house", "read"]


@pytest.fixture(scope="session")
def clips(clip):
    """The names of 20 clips of speech, the shortest."""
    with (DATA / "manifest.tsv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["transcript"].strip()]
    rows.sort(key=lambda row: float(row["seconds"]))
    return [row["id"] for row in rows[:20]]


@pytest.fixture(scope="session")
def flac():
    """`flac(clip)`: a clip as a file's bytes."""

    def made(clip):
        file = io.BytesIO()
        soundfile.write(file, clip.audio, clip.rate, format="FLAC")
        return file.getvalue()

    return made


@pytest.fixture(scope="module")
def transcribed():
    """`transcribed(bytes, words=…)`: what `edge-runtime transcribe` makes of a file."""
    made = {}

    def transcript(data, words=False):
        try:
            transcriber = made.setdefault(words, None) or Transcriber(words=words)
        except ModelMissing as missing:
            pytest.skip(str(missing))
        made[words] = transcriber
        with FileSource(data) as source:
            events = list(transcriber.transcribe(source))
        (closed,) = [event for event in events if isinstance(event, Closed)]
        finals = tuple(event for event in events if isinstance(event, Final))
        return Transcript("the file", closed.audio_seconds, finals)

    return transcript

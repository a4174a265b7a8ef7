"""Sources through the runtime in this process: live ones, and those that break off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import pytest
import soundfile

from edge_runtime import events
from edge_runtime.audio.ring import Samples
from edge_runtime.cli.dictate import dictate
from edge_runtime.cli.live import Lines
from edge_runtime.config import Config
from edge_runtime.errors import MicrophoneError
from edge_runtime.runtime import Options, Runtime

CLIP = Path(__file__).resolve().parents[2] / "audio" / "demo.flac"
SENTENCE = "he was not an ill"  # 7.9 s … 11.0 s of the clip


class Recorded:
    """Part of the demo clip as a source; `live`, and broken off by an error, if wanted."""

    name, seconds = "recorded", None

    def __init__(self, *, live: bool, breaks: bool) -> None:
        self.live = live
        self.warnings: list[str] = []
        self._breaks = breaks
        self._samples, _ = soundfile.read(CLIP, dtype="float32", start=120_000, stop=176_000)

    def __iter__(self) -> Iterator[Samples]:
        yield from np.split(self._samples, range(1600, len(self._samples), 1600))
        if self._breaks:
            raise MicrophoneError("the cable is out", "Push it in.")

    def __enter__(self) -> Recorded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


class Kept(Lines):
    """A view that keeps the events, too."""

    def __init__(self) -> None:
        super().__init__(partials=False, words=False)
        self.events: list[events.Event] = []

    def show(self, event: events.Event) -> None:
        self.events.append(event)
        super().show(event)


@pytest.mark.parametrize("live", [True, False])
def test_what_was_said_is_printed(live: bool, capsys: pytest.CaptureFixture[str]) -> None:
    view = Kept()
    dictate(Runtime(Config()), Recorded(live=live, breaks=False), Options(), view)
    assert capsys.readouterr().out.lower().startswith(SENTENCE)
    assert isinstance(view.events[-1], events.Closed)
    assert view.events[-1].audio_seconds == pytest.approx(3.5)


def test_a_microphone_that_goes_away_leaves_its_final(capsys: pytest.CaptureFixture[str]) -> None:
    view = Kept()
    with pytest.raises(MicrophoneError, match="cable"):
        dictate(Runtime(Config()), Recorded(live=True, breaks=True), Options(), view)
    assert capsys.readouterr().out.lower().startswith(SENTENCE)
    assert isinstance(view.events[-1], events.Closed)

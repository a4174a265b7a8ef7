"""The progress bar: how far, of how much, how fast; nothing where nobody looks."""

from __future__ import annotations

import io
import sys

import pytest

from edge_runtime.cli.progress import AudioProgress, clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_clock() -> None:
    assert [clock(s) for s in (0.0, 59.4, 59.6, 61.0, 3600.0, 36061.0)] == [
        "0:00", "0:59", "1:00", "1:01", "1:00:00", "10:01:01",
    ]  # fmt: skip


def progress(monkeypatch: pytest.MonkeyPatch, seconds: float | None, file: io.StringIO) -> str:
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with AudioProgress("talk.wav", seconds) as bar:
        bar.reached(60.0)
    return file.getvalue()


def test_a_long_file_shows_how_far_and_how_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = progress(monkeypatch, 3661.0, Terminal())
    assert "talk.wav" in shown
    assert "1:00 / 1:01:01" in shown
    assert "×" in shown


def test_an_unknown_length_shows_how_far(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = progress(monkeypatch, None, Terminal())
    assert "1:00" in shown
    assert "/" not in shown


def test_a_short_file_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress(monkeypatch, 12.0, Terminal()) == ""


def test_a_log_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress(monkeypatch, 3661.0, io.StringIO()) == ""

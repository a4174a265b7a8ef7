"""The three views of a stream: captions on a terminal, plain lines, JSON."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from edge_runtime import events
from edge_runtime.cli.live import Captions, Lines, open_view

TURN: list[events.Event] = [
    events.SpeechStart(segment=0, turn=0, at=0.5),
    events.Partial(segment=0, stable="", unstable="Hello", start=0.1, end=1.0),
    events.Partial(segment=0, stable="Hello", unstable=" wor", start=0.1, end=1.3),
    events.Partial(segment=0, stable="Hello", unstable=" wor", start=0.1, end=1.5),
    events.Final(
        segment=0, turn=0, reason="endpoint", text="Hello world.", start=0.1, end=2.0, logprob=-0.1,
        words=[events.Word("Hello", 0.5, 1.0, -0.1), events.Word("world.", 1.25, 2.0, -0.1)],
    ),
    events.SpeechEnd(turn=0, at=2.0),
]  # fmt: skip


def test_lines_are_finals(capsys: pytest.CaptureFixture[str]) -> None:
    with open_view() as view:
        for event in TURN:
            view.show(event)
    assert capsys.readouterr().out == "Hello world.\n"


def test_lines_show_each_partial_once_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    with open_view(partials=True, words=True) as view:
        for event in TURN:
            view.show(event)
    assert capsys.readouterr().out.splitlines() == [
        "…  | Hello",
        "… Hello | wor",
        "Hello world.",
        "     0.50      1.00  Hello",
        "     1.25      2.00  world.",
    ]


def test_notices_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with Lines(partials=True, words=False) as view:
        view.show(events.Overrun(dropped_ms=320))
        view.show(events.Warning(code="clipped", message="the microphone is too loud"))
        view.show(events.Error(code="device", message="the device is gone", fix="Restart."))
        view.show(events.Closed(reason="stop", audio_seconds=1.0))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "overrun: 320 ms of audio dropped: the device cannot keep up",
        "warning: the microphone is too loud",
        "error: the device is gone",
        "fix:   Restart.",
    ]


def test_a_rejected_final_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    rejected = events.Final(
        segment=0, turn=0, reason="endpoint", text="", start=0, end=1, logprob=-3, rejected="loop"
    )
    with open_view() as view:
        view.show(rejected)
    assert capsys.readouterr().out == ""


def test_json_is_every_event_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    with open_view(as_json=True) as view:
        for event in TURN:
            view.show(event)
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["type"] for line in lines] == [
        "speech_start", "partial", "partial", "partial", "final", "speech_end",
    ]  # fmt: skip
    assert [events.decode_event(line) for line in lines] == TURN


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=60, highlight=False)


def test_captions_show_stable_bold_and_unstable_dim_then_leave_the_final() -> None:
    console = terminal()
    with Captions(console, words=True) as view:
        for event in TURN:
            view.show(event)
        view.show(events.Overrun(dropped_ms=100))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "\x1b[1mHello\x1b[0m" in shown
    assert "\x1b[2;3m wor\x1b[0m" in shown
    assert shown.index("\x1b[2;3m wor") < shown.index("Hello world.")
    assert "1.25      2.00  world." in shown
    assert "overrun: 100 ms" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # the cursor is back


def test_a_terminal_gets_captions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert isinstance(open_view(), Captions)

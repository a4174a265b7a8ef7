"""What `transcribe` writes: text by turns, JSON that has everything, labels for many files."""

from __future__ import annotations

import json
from typing import Any

from edge_runtime.cli.output import render
from edge_runtime.events import Final, Word
from edge_runtime.transcript import Transcript


def final(text: str, turn: int = 0, **fields: Any) -> Final:
    return Final(
        **{
            "segment": 0, "turn": turn, "reason": "endpoint", "text": text,
            "start": 0.0, "end": 1.0, "logprob": -0.1, **fields,
        }
    )  # fmt: skip


TALK = Transcript(
    "talk.wav",
    7.25,
    (
        final("It was the best", reason="cap"),
        final("of times.", end=2.0),
        final("", turn=1, rejected="evidence"),
        final("The end.", turn=2, start=5.0, end=6.5),
    ),
)


def test_text_is_one_line_a_turn() -> None:
    assert render(TALK, "text") == "It was the best of times.\nThe end.\n"


def test_text_of_many_files_names_each_line() -> None:
    assert render(TALK, "text", label=True) == (
        "talk.wav: It was the best of times.\ntalk.wav: The end.\n"
    )


def test_text_with_words_has_their_times() -> None:
    words = [Word("The", 5.0, 5.25, -0.1), Word("end.", 5.5, 6.5, -0.2)]
    transcript = Transcript("talk.wav", 7.0, (final("The end.", words=words),))
    assert render(transcript, "text") == (
        "The end.\n     5.00      5.25  The\n     5.50      6.50  end.\n"
    )


def test_silence_is_an_empty_text() -> None:
    assert render(Transcript("a.wav", 3.0, ()), "text") == ""


def test_json_is_one_object_on_one_line() -> None:
    text = render(TALK, "json")
    assert text.endswith("}\n")
    assert text.count("\n") == 1
    whole = json.loads(text)
    assert whole["file"] == "talk.wav"
    assert whole["seconds"] == 7.25
    assert whole["text"] == "It was the best of times. The end."
    assert [segment["text"] for segment in whole["segments"]] == [
        "It was the best", "of times.", "", "The end.",
    ]  # fmt: skip
    assert whole["segments"][2]["rejected"] == "evidence"
    assert whole["segments"][3] == {
        "segment": 0, "turn": 2, "reason": "endpoint", "text": "The end.",
        "start": 5.0, "end": 6.5, "logprob": -0.1,
    }  # fmt: skip


def test_subtitles_leave_out_what_was_rejected() -> None:
    assert render(TALK, "srt").count("-->") == 3
    assert render(TALK, "vtt").startswith(
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nIt was the best"
    )

"""sherpa-onnx's results: the text of each segment, in the order of segments."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.dialects import Asked
from edge_runtime.dialects.sherpa_onnx import SherpaOnnx
from edge_runtime.events import Closed, Error, Final, Partial, SpeechEnd, Start, Stop, Word

START = Start(encoding="pcm_f32le", sample_rate=16000, words=True)
CLOSED = Closed(reason="stop", audio_seconds=3.0)
FIELDS = {
    "text", "tokens", "timestamps", "ys_probs", "lm_probs", "context_scores", "segment", "words",
    "start_time", "is_final", "is_eof",
}  # fmt: skip


def told(dialect, *events):
    said = [wire for event in events for wire in dialect.write(event)]
    return [wire if wire == "Done!" else json.loads(wire) for wire in said]


def partial(text):
    return Partial(segment=1, stable=text[:3], unstable=text[3:], start=0.5, end=1.0)


def final(text, reason="endpoint", words=None):
    return Final(
        segment=1, turn=1, reason=reason, text=text, start=0.5, end=1.5, logprob=-0.5, words=words
    )


def brief(result):
    return result["text"], result["segment"], result["is_final"], result["is_eof"]


def test_audio_is_float32_and_done_ends_it():
    dialect = SherpaOnnx(Asked())
    assert dialect.hello() == []
    assert dialect.hear(b"1234") == [START, b"1234"]
    assert dialect.hear(b"5678") == [b"5678"]
    assert dialect.read(b"Done") == [Stop()]
    assert SherpaOnnx(Asked()).read(b"Done") == [START, Stop()]


def test_a_segment_is_told_as_it_grows_and_the_next_has_another_number():
    words = [Word("It", 0.5, 0.7, 0.0), Word("was.", 0.75, 1.25, -1.0)]
    said = told(
        SherpaOnnx(Asked()), partial(""), partial("It"), partial("It"), partial("It wa"),
        final("It was.", words=words), SpeechEnd(turn=1, at=1.5), final(""), partial("And"),
        final("And?", "stop"), CLOSED,
    )  # fmt: skip
    assert said.pop() == "Done!"
    assert all(set(result) == FIELDS for result in said)
    assert [brief(result) for result in said] == [
        ("It", 0, False, False),
        ("It wa", 0, False, False),
        ("It was.", 0, True, False),
        ("And", 1, False, False),
        ("And?", 1, True, True),
    ]
    assert said[0]["start_time"] == said[2]["start_time"] == 0.5
    assert said[2]["tokens"] == [" It", " was."]
    assert said[2]["timestamps"] == [0.0, 0.25]


@pytest.mark.parametrize("reason", ["stop", "idle", "shutdown"])
def test_the_end_is_marked_where_no_segment_was_open(reason):
    closed = Closed(reason=reason, audio_seconds=3.0)
    said = told(SherpaOnnx(Asked()), final("Yes."), closed)
    assert [brief(result) for result in said[:-1]] == [
        ("Yes.", 0, True, False), ("", 1, True, True),
    ]  # fmt: skip
    assert said[-1] == "Done!"


def test_a_text_that_is_not_believed_is_taken_back():
    said = told(SherpaOnnx(Asked()), partial("Thanks"), final(""), final("Yes."))
    assert [brief(result) for result in said] == [
        ("Thanks", 0, False, False), ("", 0, True, False), ("Yes.", 1, True, False),
    ]  # fmt: skip


def test_what_breaks_a_session_is_told():
    (said,) = told(SherpaOnnx(Asked()), Error(code="device", message="it is gone", fix="Restart."))
    assert said["error"] == "it is gone. Restart."
    assert (said["text"], said["is_final"], said["is_eof"]) == ("", True, False)


@given(st.binary(max_size=40).filter(lambda text: text.strip() != b"Done"))
def test_other_texts_mean_nothing(text):
    assert SherpaOnnx(Asked()).read(text) == []

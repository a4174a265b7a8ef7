"""The fields of OpenAI's form, and the answers in every format."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.dialects import Asked
from edge_runtime.dialects.openai.transcriptions import Transcriptions
from edge_runtime.dialects.openai.wrong import Wrong
from edge_runtime.errors import ProtocolError, ServerFull
from edge_runtime.events import Closed, Final, Word
from edge_runtime.transcript import Transcript

ASKED = Asked(model="moonshine-tiny-en", languages=("en",))


def final(text, start=0.0, end=1.0, turn=1, words=None, reason="endpoint"):
    return Final(
        segment=1, turn=turn, reason=reason, text=text, start=start, end=end, logprob=-0.25,
        words=words,
    )  # fmt: skip


TALK = Transcript(
    "the file",
    4.5,
    (
        final("It was the best", 0.5, 1.5, reason="cap", words=[Word("It", 0.5, 0.75, -0.1)]),
        final(" of times. ", 1.5, 2.5, words=[Word(" of", 1.5, 1.75, -0.1)]),
        final("", 3.0, 3.5, turn=2),
        final("The end.", 4.0, 4.25, turn=3, words=[]),
    ),
)
TEXT = "It was the best of times. The end."


def answered(**fields):
    body = Transcriptions(ASKED, {k: [v] if isinstance(v, str) else v for k, v in fields.items()})
    return body.whole(TALK)


def test_json_is_the_text_and_what_it_is_charged_by():
    body = answered(model="whisper-1")
    assert body.type == "application/json"
    assert json.loads(body.data) == {"text": TEXT, "usage": {"type": "duration", "seconds": 5}}


def test_text_is_a_line():
    body = answered(response_format="text")
    assert body.type.startswith("text/plain")
    assert body.data.decode() == f"{TEXT}\n"


@pytest.mark.parametrize(
    ("form", "first"), [("srt", "1\n00:00:00,"), ("vtt", "WEBVTT\n\n00:00:00.")]
)
def test_subtitles(form, first):
    dialect = Transcriptions(ASKED, {"response_format": [form]})
    assert dialect.words
    assert dialect.whole(TALK).data.decode().startswith(first)


def test_verbose_json_has_segments_unless_words_are_asked_for():
    said = json.loads(answered(response_format="verbose_json").data)
    assert (said["task"], said["language"], said["duration"]) == ("transcribe", "english", 4.5)
    assert said["text"] == TEXT
    assert "words" not in said
    assert [each["text"] for each in said["segments"]] == [
        "It was the best",
        "of times.",
        "The end.",
    ]
    assert [(each["id"], each["start"], each["end"]) for each in said["segments"]] == [
        (0, 0.5, 1.5), (1, 1.5, 2.5), (2, 4.0, 4.25),
    ]  # fmt: skip
    assert {each["avg_logprob"] for each in said["segments"]} == {-0.25}


@pytest.mark.parametrize("name", ["timestamp_granularities", "timestamp_granularities[]"])
def test_words_have_their_times_when_they_are_asked_for(name):
    fields = {"response_format": ["verbose_json"], name: ["word", "segment"]}
    dialect = Transcriptions(ASKED, fields)
    assert dialect.words
    said = json.loads(dialect.whole(TALK).data)
    assert said["words"] == [
        {"word": "It", "start": 0.5, "end": 0.75}, {"word": "of", "start": 1.5, "end": 1.75},
    ]  # fmt: skip
    assert len(said["segments"]) == 3
    only = Transcriptions(ASKED, {"response_format": ["verbose_json"], name: ["word"]})
    assert "segments" not in json.loads(only.whole(TALK).data)


def test_streamed_deltas_joined_are_the_text():
    dialect = Transcriptions(ASKED, {"stream": ["true"]})
    assert dialect.streams
    events = [*TALK.finals, Closed(reason="stop", audio_seconds=4.5)]
    sent = b"".join(dialect.piece(event) for event in events)
    said = [json.loads(line.removeprefix(b"data: ")) for line in sent.split(b"\n\n")[:-1]]
    assert [each["type"] for each in said] == ["transcript.text.delta"] * 3 + [
        "transcript.text.done"
    ]
    assert "".join(each.get("delta", "") for each in said) == said[-1]["text"] == TEXT


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": "diarized_json"}, "response_format"),
        ({"response_format": "srt", "stream": "true"}, "stream"),
        ({"response_format": "verbose_json", "stream": "1"}, "stream"),
        ({"timestamp_granularities[]": "word"}, "timestamp_granularities"),
        ({"response_format": "verbose_json", "timestamp_granularities[]": "letter"},
         "timestamp_granularities"),
        ({"temperature": "2"}, "temperature"),
        ({"temperature": "nan"}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"language": "fr"}, "language"),
    ],
)  # fmt: skip
def test_what_is_not_taken_names_its_field(fields, param):
    with pytest.raises(Wrong) as caught:
        Transcriptions(ASKED, {name: [value] for name, value in fields.items()})
    said = Transcriptions.complaint(caught.value)["error"]
    assert (said["param"], said["type"]) == (param, "invalid_request_error")
    assert caught.value.fix in said["message"]


@pytest.mark.parametrize("language", ["en", "EN", "en-US", ""])
def test_the_languages_of_the_model_are_taken(language):
    assert json.loads(answered(language=language, prompt="Names.", temperature="0.2").data)


def test_a_full_server_is_no_fault_of_the_request():
    said = Transcriptions.complaint(ServerFull("all are taken", "Try again."))["error"]
    assert (said["type"], said["code"], said["param"]) == ("server_error", "full", None)
    assert said["message"] == "all are taken. Try again."


@given(st.dictionaries(
    st.sampled_from(["response_format", "stream", "temperature", "language", "prompt",
                     "timestamp_granularities[]", "x"]),
    st.lists(st.text(max_size=8) | st.sampled_from(["json", "srt", "word", "true", "0.5", "en"]),
             min_size=1, max_size=3),
))  # fmt: skip
def test_any_form_is_answered_or_refused(fields):
    try:
        dialect = Transcriptions(ASKED, fields)
    except ProtocolError as error:
        body = json.dumps(Transcriptions.complaint(error))
    else:
        body = dialect.whole(TALK).data
    assert body

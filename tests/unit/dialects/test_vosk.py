"""Vosk's messages: one answer for each of audio, and every word in one of them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.dialects import Answer, Asked
from edge_runtime.dialects.vosk import Vosk
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Closed, Error, Final, Flush, Flushed, Partial, Start, Stop, Word

SOUND = b"\1\2\3\4"
CLOSED = Closed(reason="stop", audio_seconds=3.0)


def opened(**config):
    dialect = Vosk(Asked())
    assert dialect.hello() == []
    if config:
        assert dialect.read(json.dumps({"config": config}).encode()) == []
    return dialect


def told(dialect, *events):
    return [json.loads(wire) for event in events for wire in dialect.write(event)]


def answers(dialect, data=SOUND):
    """What is said to a message of audio."""
    return told(dialect, *(act for act in dialect.hear(data) if isinstance(act, Answer)))


def partial(text):
    return Partial(segment=1, stable=text[:3], unstable=text[3:], start=0.5, end=1.0)


def final(text, words=None, logprob=-0.5):
    return Final(
        segment=1, turn=1, reason="endpoint", text=text, start=0.5, end=1.5, logprob=logprob,
        words=words,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("config", "start"),
    [
        ({}, Start(sample_rate=8000, words=True)),
        ({"sample_rate": 16000}, Start(sample_rate=16000, words=True)),
        ({"sample_rate": 16000.0, "words": False}, Start(sample_rate=16000)),
        ({"sample_rate": "44100", "words": 1}, Start(sample_rate=44100, words=True)),
        ({"phrase_list": ["yes"], "model": "x"}, Start(sample_rate=8000, words=True)),
    ],
)
def test_the_first_audio_opens_the_session_as_it_was_asked_for(config, start):
    dialect = opened(**config)
    begun, _, audio = dialect.hear(SOUND)
    assert (begun, audio) == (start, SOUND)
    assert dialect.read(b'{"config":{"sample_rate":48000}}') == []  # settled
    assert SOUND in dialect.hear(SOUND)
    assert len(dialect.hear(SOUND)) == 2


def test_what_is_set_in_two_messages_counts_together():
    dialect = opened(sample_rate=16000)
    dialect.read(b'{"config":{"words":false}}')
    assert dialect.hear(SOUND)[0] == Start(sample_rate=16000)


def test_audio_is_answered_with_what_is_known():
    dialect = opened()
    assert answers(dialect) == [{"partial": ""}]
    assert told(dialect, partial("It was the")) == []
    assert answers(dialect) == answers(dialect) == [{"partial": "It was the"}]
    words = [Word("It", 0.5, 0.7, 0.0), Word("was.", 0.75, 1.25, -1.0)]
    assert told(dialect, final("It was.", words), partial("And")) == []
    assert answers(dialect) == [
        {
            "result": [
                {"word": "It", "start": 0.5, "end": 0.7, "conf": 1.0},
                {"word": "was.", "start": 0.75, "end": 1.25, "conf": math.exp(-1)},
            ],
            "text": "It was.",
        }
    ]
    assert answers(dialect) == [{"partial": "And"}]
    assert told(dialect, final("")) == []
    assert answers(dialect) == [{"partial": ""}]


def test_several_utterances_between_two_messages_are_one_text():
    dialect = opened(words=False)
    answers(dialect)
    told(dialect, final("One."), final(" Two. "), final(""))
    assert answers(dialect) == [{"text": "One. Two."}]
    told(dialect, final("Three."))
    assert dialect.read(b'{"eof" : 1}') == [Stop()]
    assert told(dialect, final("Four."), CLOSED) == [{"text": "Three. Four."}]


def test_the_end_is_answered_where_nothing_was_said():
    dialect = opened()
    assert dialect.read(b'{"eof":1}') == [Start(sample_rate=8000, words=True), Stop()]
    assert told(dialect, CLOSED) == [{"text": ""}]


def test_a_reset_is_answered_with_the_rest_in_its_place():
    dialect = opened(words=False)
    answers(dialect)
    answer, flush = dialect.read(b'{"reset" : 1}')
    assert flush == Flush()
    assert told(dialect, answer) == []
    assert answers(dialect) == []  # of a client that does not wait
    assert told(dialect, final("Done."), Flushed()) == [{"text": "Done."}, {"partial": ""}]
    assert answers(dialect) == [{"partial": ""}]


def test_alternatives_have_a_form_of_their_own():
    dialect = opened(max_alternatives=3)
    answers(dialect)
    told(dialect, final("Yes.", [Word("Yes.", 0.5, 1.0, 0.0)], logprob=0.0))
    (said,) = answers(dialect)
    word = {"word": "Yes.", "start": 0.5, "end": 1.0, "conf": 1.0}
    assert said == {"alternatives": [{"confidence": 1.0, "result": [word], "text": "Yes."}]}
    assert answers(dialect) == [{"partial": ""}]
    assert told(dialect, CLOSED) == [{"alternatives": [{"confidence": 1.0, "text": ""}]}]


def test_a_session_that_ends_otherwise_loses_no_text():
    idle = Closed(reason="idle", audio_seconds=3.0)
    assert told(opened(), idle) == []
    assert told(opened(), final("Rest."), idle) == [{"text": "Rest."}]
    error = Error(code="device", message="it is gone", fix="Restart.")
    assert told(opened(), error) == [{"partial": "", "error": "it is gone. Restart."}]
    assert told(opened(), final("Rest."), error) == [
        {"text": "Rest.", "error": "it is gone. Restart."}
    ]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"", "bad_message"),
        (b"{", "bad_message"),
        (b"\xff", "bad_message"),
        (b"[" * 5000, "bad_message"),
        (b"[]", "bad_message"),
        (b"{}", "bad_message"),
        (b'{"config":7}', "bad_message"),
        (b'{"config":{"sample_rate":"fast"}}', "bad_message"),
        (b'{"config":{"sample_rate":null}}', "bad_message"),
        (b'{"config":{"sample_rate":1e999}}', "bad_message"),
        (b'{"config":{"sample_rate":16000.5}}', "unsupported_audio"),
        (b'{"eof":"what"}', "bad_message"),
    ],
)
def test_what_is_wrong_is_said(message, code):
    with pytest.raises(ProtocolError) as caught:
        opened().read(message)
    assert caught.value.code == code
    assert caught.value.close_code in {1003, 1007}


@given(st.lists(st.sampled_from(["frame", "reset", "final", "partial", "flushed"])))
def test_there_is_one_answer_for_each_message_and_each_word_is_in_one(steps):
    """Whatever comes between what is asked."""
    dialect, asked, flushes, said, wanted = opened(words=False), 0, 0, [], []
    for number, step in enumerate(steps):
        if step == "frame":
            asked += 1
            said += answers(dialect)
        elif step == "reset":
            asked += 1
            flushes += 1
            said += told(dialect, next(
                act for act in dialect.read(b'{"reset":1}') if isinstance(act, Answer)
            ))  # fmt: skip
        elif step == "final":
            wanted.append(str(number))
            said += told(dialect, final(str(number)))
        elif step == "partial":
            said += told(dialect, partial("something"))
        elif flushes:
            flushes -= 1
            said += told(dialect, Flushed())
    said += told(dialect, *[Flushed()] * flushes, CLOSED)
    assert len(said) == asked + 1
    assert " ".join(each.get("text", "") for each in said).split() == wanted

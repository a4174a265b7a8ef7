"""Deepgram's answers for recordings, and what is asked of them."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.dialects import Asked
from edge_runtime.dialects.deepgram.prerecorded import Prerecorded
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Final, Word
from edge_runtime.transcript import Transcript


def final(text, start, end, turn, words, reason="endpoint"):
    return Final(
        segment=1, turn=turn, reason=reason, text=text, start=start, end=end, logprob=-0.25,
        words=[Word(word, start, end, 0.0) for word in words],
    )  # fmt: skip


TALK = Transcript(
    "the file",
    4.5,
    (
        final("It was", 0.5, 1.5, 1, ["It", " was"], reason="cap"),
        final(" late. ", 1.5, 2.5, 1, [" late."]),
        final("", 3.0, 3.5, 2, []),
        final("The end.", 4.0, 4.25, 3, ["The", " end."]),
    ),
)


def asked(headers=None, **query):
    return Asked(query=query, headers=headers or {}, model="moonshine-tiny-en", languages=("en",))


def answered(**query):
    dialect = Prerecorded(asked(**query), {})
    dialect.file = b"a file"
    body = dialect.whole(TALK)
    assert body.type == "application/json"
    return json.loads(body.data)


def test_the_answer():
    said = answered(model="nova-3", smart_format="true", utt_split="0.8")
    (channel,) = said["results"]["channels"]
    (heard,) = channel["alternatives"]
    assert heard["transcript"] == TALK.text == "It was late. The end."
    assert heard["confidence"] == 1.0
    assert [word["punctuated_word"] for word in heard["words"]] == [
        "It", "was", "late.", "The", "end.",
    ]  # fmt: skip
    assert [word["word"] for word in heard["words"]] == ["it", "was", "late", "the", "end"]
    metadata = said["metadata"]
    assert metadata["sha256"] == hashlib.sha256(b"a file").hexdigest()
    assert (metadata["duration"], metadata["channels"]) == (4.5, 1)
    (model,) = metadata["models"]
    assert metadata["model_info"][model]["name"] == "moonshine-tiny-en"
    assert "utterances" not in said["results"]


def test_utterances_are_turns():
    one, two = answered(utterances="true")["results"]["utterances"]
    assert [each["transcript"] for each in (one, two)] == ["It was late.", "The end."]
    assert (one["start"], one["end"], one["channel"]) == (0.5, 2.5, 0)
    assert len(one["words"]) == 3
    assert one["id"] != two["id"]


@pytest.mark.parametrize(
    ("query", "headers", "said"),
    [
        ({}, {"Content-Type": "application/json"}, "fetched"),
        ({}, {"Content-Type": "Application/JSON; charset=utf-8"}, "fetched"),
        ({"callback": "https://example.com"}, {}, "callback"),
        ({"redact": "numbers"}, {}, "redact"),
        ({"language": "fr"}, {}, "fr"),
        ({"multichannel": "true"}, {}, "multichannel"),
        ({"utterances": "perhaps"}, {}, "utterances"),
    ],
)
def test_what_is_not_taken_is_refused(query, headers, said):
    with pytest.raises(ProtocolError) as caught:
        Prerecorded(asked(headers, **query), {})
    complaint = Prerecorded.complaint(caught.value)
    assert set(complaint) == {"err_code", "err_msg", "request_id"}
    assert said in complaint["err_msg"]


@given(st.dictionaries(
    st.sampled_from(["utterances", "language", "multichannel", "callback", "model", "encoding"]),
    st.text(max_size=8) | st.sampled_from(["true", "false", "en", ""]),
))  # fmt: skip
def test_any_query_is_answered_or_refused(query):
    try:
        dialect = Prerecorded(asked(**query), {})
    except ProtocolError as error:
        body = json.dumps(Prerecorded.complaint(error)).encode()
    else:
        body = dialect.whole(TALK).data
    assert body

"""OpenAI's Realtime events: what is asked of a session, and what its events become."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.dialects import Answer, Asked
from edge_runtime.dialects.openai.realtime import Realtime
from edge_runtime.events import (
    Closed,
    Error,
    Final,
    Flush,
    Flushed,
    Partial,
    Ready,
    SpeechEnd,
    SpeechStart,
    Start,
)

SOUND = bytes(range(1, 201))
UPDATE = b'{"type":"session.update","session":{"audio":{"input":%s}}}'
INPUT = "session.audio.input"
TRANSCRIPTION = "conversation.item.input_audio_transcription"


def opened(**options):
    return Realtime(Asked(model="moonshine-tiny-en", languages=("en",), **options))


def append(data=SOUND):
    return {"type": "input_audio_buffer.append", "audio": base64.b64encode(data).decode()}


def read(dialect, message):
    return dialect.read(json.dumps(message).encode())


def told(dialect, *events):
    return [json.loads(wire) for event in events for wire in dialect.write(event)]


def answers(dialect, message):
    return told(dialect, *(act for act in read(dialect, message) if isinstance(act, Answer)))


def update(dialect, **heard):
    session = {"type": "transcription", "audio": {"input": heard}}
    (said,) = answers(dialect, {"type": "session.update", "session": session})
    return said


def kinds(said):
    return [each["type"].removeprefix(TRANSCRIPTION) for each in said]


def start(turn=1, at=0.5):
    return SpeechStart(segment=turn, turn=turn, at=at)


def partial(stable, unstable="…"):
    return Partial(segment=1, stable=stable, unstable=unstable, start=0.5, end=1.0)


def final(text, reason="endpoint", turn=1):
    return Final(segment=1, turn=turn, reason=reason, text=text, start=0.5, end=1.75, logprob=-0.1)


def end(turn=1, at=1.5):
    return SpeechEnd(turn=turn, at=at)


def test_the_session_is_told_before_anything_is_asked():
    dialect = opened()
    (hello,) = dialect.hello()
    (said,) = told(dialect, hello)
    assert said["type"] == "session.created"
    assert said["event_id"]
    session = said["session"]
    assert session["id"].startswith("sess_")
    assert session["type"] == "transcription"
    heard = session["audio"]["input"]
    assert heard["format"] == {"type": "audio/pcm", "rate": 24000}
    assert heard["transcription"]["model"] == "moonshine-tiny-en"
    assert heard["turn_detection"]["silence_duration_ms"] == 500


def test_the_first_audio_opens_the_session_as_it_was_asked_for():
    dialect = opened()
    said = update(
        dialect,
        format={"type": "audio/pcm", "rate": 24000},
        transcription={"model": "gpt-4o-transcribe", "language": "en", "keywords": ["x"]},
        turn_detection={"type": "server_vad", "threshold": 0.9, "silence_duration_ms": 700},
    )
    assert said["type"] == "session.updated"
    heard = said["session"]["audio"]["input"]
    assert heard["transcription"]["model"] == "gpt-4o-transcribe"
    assert heard["turn_detection"]["silence_duration_ms"] == 700
    assert read(dialect, append()) == [
        Start(encoding="pcm_s16le", sample_rate=24000, endpoint_ms=700), SOUND,
    ]  # fmt: skip
    assert read(dialect, append(b"\1\2")) == [b"\1\2"]
    assert read(dialect, append(b"")) == []


@pytest.mark.parametrize(
    ("form", "encoding", "rate"),
    [
        ({"type": "audio/pcm"}, "pcm_s16le", 24000),
        ({"type": "audio/pcm", "rate": 16000}, "pcm_s16le", 16000),
        ({"type": "audio/pcmu"}, "mulaw", 8000),
        ({"type": "audio/pcma"}, "alaw", 8000),
    ],
)
def test_formats(form, encoding, rate):
    dialect = opened()
    update(dialect, format=form)
    begin, _ = read(dialect, append())
    assert (begin.encoding, begin.sample_rate) == (encoding, rate)


@pytest.mark.parametrize(
    ("detection", "silence"),
    [
        ({"type": "server_vad"}, 500),
        ({"type": "server_vad", "silence_duration_ms": 10}, 200),
        ({"type": "server_vad", "silence_duration_ms": 99999}, 10000),
        ({"type": "semantic_vad"}, 1000),
        ({"type": "semantic_vad", "eagerness": "high"}, 500),
        ({"type": "semantic_vad", "eagerness": "low"}, 2000),
        (None, 500),
    ],
)
def test_what_ends_a_turn(detection, silence):
    dialect = opened()
    said = update(dialect, turn_detection=detection)
    shown = said["session"]["audio"]["input"]["turn_detection"]
    assert (shown is None) == (detection is None)
    assert read(dialect, append())[0].endpoint_ms == silence


def test_a_turn_is_an_item_whatever_its_segments():
    dialect = opened()
    read(dialect, append())
    ready = Ready(session="s", resume="r", next_sample=0, model="m", device="d", sample_rate=24000)
    said = told(
        dialect, ready, start(), partial(""), partial("It was"), final("It was the best", "cap"),
        partial("of "), final("of times."), end(),
    )  # fmt: skip
    assert kinds(said) == [
        "input_audio_buffer.speech_started", ".delta", ".delta", ".delta", ".delta",
        "input_audio_buffer.speech_stopped", "input_audio_buffer.committed",
        "conversation.item.added", "conversation.item.done", ".completed",
    ]  # fmt: skip
    ids = {each.get("item_id") or each["item"]["id"] for each in said}
    assert len(ids) == 1
    assert len({each["event_id"] for each in said}) == len(said)
    assert (said[0]["audio_start_ms"], said[5]["audio_end_ms"]) == (500, 1500)
    deltas = [each["delta"] for each in said if "delta" in each]
    assert deltas == ["It was", " the best", " of", " times."]
    assert said[-1]["transcript"] == "It was the best of times."
    assert said[-1]["usage"] == {"type": "duration", "seconds": 2.5}
    assert said[6]["previous_item_id"] is None
    (more, *_, committed, _, _, completed) = told(dialect, start(2), final("Then.", turn=2), end(2))
    assert committed["previous_item_id"] in ids
    assert more["item_id"] == completed["item_id"] not in ids


def test_speech_that_is_no_word_is_an_empty_transcript():
    dialect = opened()
    read(dialect, append())
    said = told(dialect, start(), final(""), end())
    assert said[-1]["transcript"] == ""
    assert ".delta" not in kinds(said)


def test_without_turn_detection_a_commit_ends_the_turn():
    dialect = opened()
    update(dialect, turn_detection=None)
    read(dialect, append())
    said = told(dialect, start(), partial("One"), final("One two."), end(), start(2))
    assert kinds(said) == [".delta", ".delta"]
    assert read(dialect, {"type": "input_audio_buffer.commit"}) == [Flush()]
    said = told(dialect, final("Three.", "flush", 2), end(2), Flushed())
    assert kinds(said) == [
        ".delta", "input_audio_buffer.committed", "conversation.item.added",
        "conversation.item.done", ".completed",
    ]  # fmt: skip
    assert said[-1]["transcript"] == "One two. Three."


def test_a_commit_while_somebody_speaks_ends_the_turn_once():
    dialect = opened()
    read(dialect, append())
    told(dialect, start(), partial("One"))
    read(dialect, {"type": "input_audio_buffer.commit"})
    said = told(dialect, final("One.", "flush"), end(), Flushed())
    assert kinds(said).count(".completed") == 1
    read(dialect, append())
    read(dialect, {"type": "input_audio_buffer.commit"})
    said = told(dialect, Flushed())
    assert kinds(said)[-1] == ".completed"
    assert said[-1]["transcript"] == ""


def test_nothing_is_committed_twice():
    dialect = opened()
    commit = {"type": "input_audio_buffer.commit", "event_id": "mine"}
    for _ in range(2):
        (error,) = answers(dialect, commit)
        assert error["error"]["code"] == "input_audio_buffer_commit_empty"
        assert error["error"]["event_id"] == "mine"
        read(dialect, append())
        assert read(dialect, commit) == [Flush()]


@pytest.mark.parametrize("manual", [True, False])
def test_what_is_cleared_has_no_transcript(manual):
    dialect = opened()
    if manual:
        update(dialect, turn_detection=None)
    assert kinds(answers(dialect, {"type": "input_audio_buffer.clear"})) == [
        "input_audio_buffer.cleared"
    ]
    read(dialect, append())
    told(dialect, start(), partial("Forget"))
    assert read(dialect, {"type": "input_audio_buffer.clear"}) == [Flush()]
    said = told(dialect, final("Forget me.", "flush"), end(), Flushed())
    assert kinds(said) == [".failed", "input_audio_buffer.cleared"]
    assert said[0]["error"]["code"] == "cleared"
    read(dialect, append())
    read(dialect, {"type": "input_audio_buffer.commit"})
    said = told(dialect, start(2), final("Keep me.", "flush", 2), end(2), Flushed())
    assert said[-1]["transcript"] == "Keep me."


@pytest.mark.parametrize("by", ["update", "header", "protocol"])
def test_the_beta_has_its_own_names(by):
    dialect = {
        "update": opened,
        "header": lambda: opened(headers={"OpenAI-Beta": "realtime=v1"}),
        "protocol": lambda: opened(protocols=["realtime", "openai-beta.realtime-v1"]),
    }[by]()
    session = {
        "input_audio_format": "g711_ulaw",
        "input_audio_transcription": {"model": "whisper-1"},
        "turn_detection": {"type": "server_vad", "silence_duration_ms": 600},
    }
    (said,) = answers(dialect, {"type": "transcription_session.update", "session": session})
    assert said["type"] == "transcription_session.updated"
    assert said["session"]["input_audio_format"] == "g711_ulaw"
    assert said["session"]["input_audio_transcription"]["model"] == "whisper-1"
    assert read(dialect, append())[0] == Start(encoding="mulaw", sample_rate=8000, endpoint_ms=600)
    said = told(dialect, start(), final("Yes."), end())
    assert "conversation.item.created" in kinds(said)
    assert "conversation.item.added" not in kinds(said)


@pytest.mark.parametrize(
    ("message", "param", "says"),
    [
        (b"{", None, "JSON"),
        (b"\xff", None, "JSON"),
        (b"[]", None, "object"),
        (b"{}", "type", "session.update"),
        (b'{"type":"response.create"}', "type", "session.update"),
        (b'{"type":"input_audio_buffer.append"}', None, "audio"),
        (b'{"type":"input_audio_buffer.append","audio":"?"}', "audio", "base64"),
        (b'{"type":"input_audio_buffer.append","audio":7}', "audio", "int"),
        (b'{"type":"session.update"}', None, "session"),
        (b'{"type":"session.update","session":{"type":"realtime"}}', "session.type", "transcri"),
        (UPDATE % b'{"turn_detection":{"type":"x"}}', f"{INPUT}.turn_detection.type", "x"),
        (UPDATE % b'{"format":{"type":"opus"}}', f"{INPUT}.format", "audio/pcm"),
        (UPDATE % b'{"format":{"type":"audio/pcm","rate":1}}', f"{INPUT}.format", "24000"),
        (b'{"type":"session.update","session":{"input_audio_format":"mp3"}}',
         "session.input_audio_format", "pcm16"),
        (UPDATE % b'{"transcription":{"language":"fr"}}', f"{INPUT}.transcription", "en"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_the_session_goes_on(message, param, says):
    dialect = opened()
    (act,) = dialect.read(message)
    (said,) = told(dialect, act)
    assert said["type"] == "error"
    assert said["error"]["type"] == "invalid_request_error"
    assert said["error"]["param"] == param
    assert says in said["error"]["message"]
    assert read(dialect, append())[1] == SOUND


def test_the_format_is_settled_by_the_first_audio():
    dialect = opened()
    read(dialect, append())
    assert update(dialect, transcription={"language": "en"})["type"] == "session.updated"
    for heard in ({"format": {"type": "audio/pcmu"}}, {"turn_detection": None}):
        assert update(dialect, **heard)["error"]["param"] == "session.audio.input"


def test_binary_messages_are_not_of_this_protocol():
    dialect = opened()
    (said,) = told(dialect, *dialect.hear(b"\0\0"))
    assert said["type"] == "error"
    assert "append" in said["error"]["message"]


def test_an_item_that_is_open_when_the_session_breaks_is_failed():
    dialect = opened()
    read(dialect, append())
    told(dialect, start())
    said = told(dialect, Error(code="device", message="it is gone", fix="Restart."))
    assert kinds(said) == [".failed", "error"]
    assert said[1]["error"]["type"] == "server_error"
    assert "Restart." in said[1]["error"]["message"]
    assert told(dialect, Closed(reason="idle", audio_seconds=1.0)) == []


MESSAGES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "session", "audio", "input", "format", "rate", "turn_detection",
                         "transcription", "event_id", "silence_duration_ms"]),
        inner | st.sampled_from(["session.update", "input_audio_buffer.append", "server_vad",
                                 "input_audio_buffer.commit", "input_audio_buffer.clear",
                                 "transcription_session.update", "audio/pcm", "AAAA"]),
        max_size=4,
    ),
    max_leaves=8,
)  # fmt: skip


@given(st.lists(st.binary(max_size=40) | MESSAGES.map(lambda each: json.dumps(each).encode())))
def test_any_message_is_taken_or_answered(messages):
    """Whatever comes, a session is opened once, before anything is asked of it."""
    dialect = opened()
    begun = False
    for message in messages:
        for act in dialect.read(message):
            if isinstance(act, Answer):
                (said,) = told(dialect, act)
                assert said["type"] in {
                    "error", "session.updated", "transcription_session.updated",
                    "input_audio_buffer.cleared",
                }  # fmt: skip
            elif isinstance(act, Start):
                assert not begun
                begun = True
            else:
                assert begun


@st.composite
def sessions(draw):
    """Turns as sessions tell them, with flushes asked for anywhere; and the finals' texts."""
    steps = []
    for turn in range(1, draw(st.integers(0, 4)) + 1):
        asks = draw(st.sampled_from(["", "", "commit", "clear"]))
        texts = draw(st.lists(st.text("ab .", max_size=8), min_size=1, max_size=3))
        steps.append(start(turn))
        for index, text in enumerate(texts):
            last = index == len(texts) - 1
            cut = draw(st.integers(0, len(text)))
            steps.append(partial(text[:cut]))
            if last and asks:
                steps.append(asks)
            reason = ("flush" if asks else "endpoint") if last else "cap"
            steps.append(final(text, reason, turn))
        steps.append(end(turn))
        if asks:
            steps.append(Flushed())
    return steps


@given(sessions(), st.booleans())
def test_completed_is_the_deltas_joined_and_every_item_ends_once(steps, manual):
    dialect = opened()
    if manual:
        update(dialect, turn_detection=None)
    read(dialect, append())
    deltas, ended, order = {}, {}, []
    for step in steps:
        if isinstance(step, str):
            read(dialect, append())
            assert read(dialect, {"type": f"input_audio_buffer.{step}"}) == [Flush()]
            continue
        for said in told(dialect, step):
            kind, item = said["type"].removeprefix(TRANSCRIPTION), said.get("item_id")
            if kind == ".delta":
                assert item not in ended
                assert said["delta"]
                deltas[item] = deltas.get(item, "") + said["delta"]
            elif kind in {".completed", ".failed"}:
                assert item not in ended
                ended[item] = said.get("transcript")
            elif kind == "input_audio_buffer.committed":
                assert said["previous_item_id"] == (order[-1] if order else None)
                order.append(item)
    for item, transcript in ended.items():
        if transcript is not None:
            assert transcript == deltas.get(item, "")
    assert [item for item, transcript in ended.items() if transcript is not None] == order
    if not manual:
        assert set(deltas) <= set(ended)

"""Wyoming's events: what is asked of a session, and what its events become."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.dialects import Answer, Asked
from edge_runtime.dialects.wyoming import event as events
from edge_runtime.dialects.wyoming.asr import Wyoming
from edge_runtime.errors import ProtocolError
from edge_runtime.events import (
    Closed,
    Error,
    Final,
    Partial,
    Ready,
    SpeechEnd,
    SpeechStart,
    Start,
    Stop,
)

SOUND = bytes(range(1, 201))
FORMAT = {"rate": 16000, "width": 2, "channels": 1}


def opened(languages=("en",)):
    name = "moonshine-tiny-en"
    return Wyoming(Asked(model=name, languages=languages, models={name: languages}))


def message(kind, data=None, payload=b"", inline=None):
    """As the protocol's library writes it; `inline` values go into the first line."""
    values = json.dumps(data).encode() if data else b""
    header = {"type": kind, "version": "1.10.2"}
    header |= {"data": inline} if inline else {}
    header |= {"data_length": len(values)} if values else {}
    header |= {"payload_length": len(payload)} if payload else {}
    return json.dumps(header).encode() + b"\n" + values + payload


def told(dialect, *said):
    """Type and values of every event."""
    found = []
    for each in said:
        for wire in dialect.write(each):
            line, _, rest = wire.partition(b"\n")
            header = json.loads(line)
            assert header.get("data_length", 0) == len(rest)
            found.append((header["type"], json.loads(rest) if rest else {}))
    return found


def final(text, reason="endpoint", segment=1):
    return Final(
        segment=segment, turn=1, reason=reason, text=text, start=0.5, end=1.7, logprob=-0.1
    )


def partial(stable, unstable="…"):
    return Partial(segment=1, stable=stable, unstable=unstable, start=0.5, end=1.0)


def speak(dialect):
    assert dialect.read(message("transcribe", {"language": "en"})) == []
    assert dialect.read(message("audio-start", FORMAT)) == [Start()]
    assert dialect.read(message("audio-chunk", {**FORMAT, "timestamp": 0}, SOUND)) == [SOUND]


def test_an_utterance_is_a_session_and_its_segments_one_transcript():
    dialect = opened()
    speak(dialect)
    ready = Ready(session="s", resume="r", next_sample=0, model="m", device="d", sample_rate=16000)
    start = SpeechStart(segment=1, turn=1, at=0.5)
    assert told(dialect, ready, start, partial("")) == []
    said = told(
        dialect, partial("It was"), partial("It was "), final("It was the best", "cap"),
        partial("of"), final("of times.", segment=2), SpeechEnd(turn=1, at=1.5),
    )  # fmt: skip
    assert said[0] == ("transcript-start", {"language": "en"})
    assert [kind for kind, _ in said[1:]] == ["transcript-chunk"] * 4
    assert dialect.read(message("audio-stop", {"timestamp": None})) == [Stop()]
    end = told(dialect, final("Then.", "stop", 3), Closed(reason="stop", audio_seconds=2.0))
    whole = "It was the best of times. Then."
    assert [kind for kind, _ in end] == ["transcript-chunk", "transcript", "transcript-stop"]
    assert end[1][1] == {"text": whole, "language": "en"}
    pieces = [data["text"] for kind, data in said + end if kind == "transcript-chunk"]
    assert pieces == ["It was", " the best", " of", " times.", " Then."]
    assert "".join(pieces) == whole


def test_the_next_utterance_has_nothing_of_the_one_before():
    dialect = opened()
    speak(dialect)
    dialect.read(message("audio-stop"))
    told(dialect, final("One.", "stop"), Closed(reason="stop", audio_seconds=1.0))
    eight = {"rate": 8000, "width": 2, "channels": 2}
    assert dialect.read(message("audio-start", eight)) == [Start(sample_rate=8000, channels=2)]
    dialect.read(message("audio-stop"))
    assert told(dialect, Closed(reason="stop", audio_seconds=1.0)) == [
        ("transcript-start", {"language": "en"}),
        ("transcript", {"text": "", "language": "en"}),
        ("transcript-stop", {}),
    ]


def test_a_chunk_may_come_without_a_start_and_a_stop_without_any():
    dialect = opened(languages=())
    chunk = message("audio-chunk", FORMAT, SOUND)
    assert dialect.read(chunk) == [Start(), SOUND]
    assert dialect.read(chunk) == [SOUND]
    assert dialect.read(message("audio-stop")) == [Stop()]
    (answer,) = dialect.read(message("audio-stop"))
    assert told(dialect, answer)[1] == ("transcript", {"text": ""})


@pytest.mark.parametrize(
    ("reason", "said"), [("shutdown", "shuts down"), ("idle", "too long"), ("other", "over")]
)
def test_half_a_command_is_no_transcript(reason, said):
    dialect = opened()
    speak(dialect)
    events = told(dialect, final("Turn off", "stop"), Closed(reason=reason, audio_seconds=1.0))
    assert [kind for kind, _ in events] == ["transcript-start", "transcript-chunk", "error"]
    assert events[-1][1]["code"] == reason
    assert said in events[-1][1]["text"]


def test_an_error_is_told_with_what_helps():
    dialect = opened()
    (said,) = told(dialect, Error(code="full", message="no room", fix="Try again."))
    assert said == ("error", {"text": "no room. Try again.", "code": "full"})


def test_what_we_are():
    (answer,) = opened().read(message("describe"))
    assert isinstance(answer, Answer)
    ((kind, data),) = told(opened(), answer)
    (program,) = data["asr"]
    assert kind == "info"
    assert program["supports_transcript_streaming"] is True
    assert program["requires_external_vad"] is True
    (model,) = program["models"]
    assert (model["name"], model["languages"]) == ("moonshine-tiny-en", ["en"])


def test_a_ping_is_answered_with_its_words():
    dialect = opened()
    (answer,) = dialect.read(message("ping", {"text": "hé"}))
    assert told(dialect, answer) == [("pong", {"text": "hé"})]
    (answer,) = dialect.read(message("ping"))
    assert told(dialect, answer) == [("pong", {"text": None})]


@pytest.mark.parametrize("language", [None, "", "en", "EN", "en-US", "en_GB", "auto"])
def test_languages_of_the_model(language):
    assert opened().read(message("transcribe", {"language": language, "name": "tiny"})) == []


def test_the_language_that_was_asked_for_is_told_where_there_are_several():
    dialect = opened(("de", "en"))
    dialect.read(message("audio-start", FORMAT))
    assert told(dialect, final("Ja."))[0] == ("transcript-start", {})
    dialect = opened(("de", "en"))
    dialect.read(message("transcribe", {"language": "en_GB"}))
    assert dialect.read(message("audio-start", FORMAT)) == [Start(language="en")]
    assert told(dialect, final("Yes."))[0] == ("transcript-start", {"language": "en"})


@pytest.mark.parametrize("kind", ["voice-started", "run-pipeline", "select-program", ""])
def test_other_events_ask_for_nothing(kind):
    assert opened().read(message(kind, {"name": "x"}, b"abc")) == []


def test_values_may_be_in_the_line_after_it_or_both():
    dialect = opened()
    inline = {"rate": 8000, "width": 2, "channels": 1}
    (start,) = dialect.read(message("audio-start", {"rate": 24000}, inline=inline))
    assert start == Start(sample_rate=24000)
    assert opened().read(message("audio-start", inline=FORMAT)) == [Start()]


@pytest.mark.parametrize(
    ("text", "code", "close"),
    [
        (message("transcribe", {"language": "fr"}), "unsupported_language", 1008),
        (message("audio-start", {**FORMAT, "width": 4}), "unsupported_audio", 1003),
        (message("audio-start", {"rate": 16000}), "bad_field", 1007),
        (message("audio-start", {**FORMAT, "rate": "16000"}), "bad_field", 1007),
        (message("audio-start", {**FORMAT, "rate": 10**400}), "bad_field", 1007),
        (message("audio-start", {**FORMAT, "channels": -1}), "bad_field", 1007),
        (message("audio-chunk", None, SOUND), "bad_field", 1007),
        (message("ping", {"text": 3}), "bad_field", 1007),
        (b"\n", "bad_json", 1007),
        (b"[]\n", "bad_json", 1007),
        (b"null\n", "bad_json", 1007),
        (b"{}\n", "bad_json", 1007),
        (b'{"type":1}\n', "bad_json", 1007),
        (b'{"type":"\xff"}\n', "bad_json", 1007),
        (b'{"type":"ping","data":' + b"[" * 60000 + b"\n", "bad_json", 1007),
        (b'{"type":"ping","data":[]}\n', "bad_json", 1007),
        (b'{"type":"ping","data_length":4}\nnull', "bad_json", 1007),
        (b'{"type":"ping","data_length":2}\n{]', "bad_json", 1007),
    ],
)
def test_what_is_wrong_is_said(text, code, close):
    with pytest.raises(ProtocolError) as caught:
        opened().read(text)
    assert (caught.value.code, caught.value.close_code) == (code, close)
    assert len(str(caught.value)) < 400


def test_the_format_of_an_utterance_does_not_change():
    dialect = opened()
    speak(dialect)
    for kind in ("audio-chunk", "audio-start"):
        with pytest.raises(ProtocolError) as caught:
            dialect.read(message(kind, {**FORMAT, "rate": 22050}, SOUND))
        assert caught.value.code == "format_changed"
    assert dialect.read(message("audio-start", FORMAT)) == []


@pytest.mark.parametrize(
    ("header", "size"),
    [
        ({"type": "x"}, 0),
        ({"type": "x", "data_length": None, "payload_length": None}, 0),
        ({"type": "x", "data_length": 7}, 7),
        ({"type": "x", "data_length": 7, "payload_length": 1 << 40}, (1 << 40) + 7),
    ],
)
def test_how_much_follows_a_line(header, size):
    assert Wyoming.following(json.dumps(header).encode() + b"\n") == size


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({"type": "x", "data_length": 1 << 17}, "too_big"),
        ({"type": "x", "data_length": -1}, "bad_json"),
        ({"type": "x", "payload_length": -1}, "bad_json"),
        ({"type": "x", "payload_length": "9"}, "bad_json"),
        ({"type": "x", "payload_length": 1e400}, "bad_json"),
        ({"type": "x", "payload_length": True}, "bad_json"),
    ],
)
def test_lengths_that_are_none(header, code):
    with pytest.raises(ProtocolError) as caught:
        Wyoming.following(json.dumps(header).encode() + b"\n")
    assert caught.value.code == code


@given(st.binary(max_size=300))
def test_any_line_is_understood_or_refused(line):
    text = line.replace(b"\n", b"") + b"\n"
    with contextlib.suppress(ProtocolError):
        opened().read(text + bytes(min(Wyoming.following(text), 1000)))


@given(st.lists(st.text(max_size=20), max_size=6))
def test_chunks_joined_are_the_transcript(texts):
    dialect = opened()
    speak(dialect)
    said = told(
        dialect, *(final(text, "cap") for text in texts), Closed(reason="stop", audio_seconds=1.0)
    )
    pieces = [data["text"] for kind, data in said if kind == "transcript-chunk"]
    (whole,) = [data["text"] for kind, data in said if kind == "transcript"]
    assert "".join(pieces) == whole == " ".join(text.strip() for text in texts if text.strip())


def test_what_we_write_is_what_we_read():
    read = events.read(events.encode("pong", text="ü"))
    assert (read.kind, read.data, read.payload) == ("pong", {"text": "ü"}, b"")

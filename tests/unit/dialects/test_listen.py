"""Deepgram's live messages: what is asked of a session, and what its events become."""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.dialects import Answer, Asked
from edge_runtime.dialects.deepgram.listen import Listen
from edge_runtime.errors import NotAdmitted, ProtocolError
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
    Stop,
    Word,
)

RAW = {"model": "nova-3", "encoding": "linear16", "sample_rate": "16000"}
SECOND = bytes(32000)


def opened(**query):
    return Listen(Asked(query={**RAW, **query}, model="moonshine-tiny-en", languages=("en",)))


def start(**query):
    (act,) = opened(**query).hello()
    return act


def ask(dialect, kind, **fields):
    return dialect.read(json.dumps({"type": kind, **fields}).encode())


def told(dialect, *events):
    return [json.loads(wire) for event in events for wire in dialect.write(event)]


def answers(dialect, acts):
    return told(dialect, *(act for act in acts if isinstance(act, Answer)))


def began(at=0.5, turn=1):
    return SpeechStart(segment=turn, turn=turn, at=at)


def partial(stable, unstable, end=1.0):
    return Partial(segment=1, stable=stable, unstable=unstable, start=0.5, end=end)


def final(text, reason="endpoint", start=0.5, end=1.75, words=(), rejected=None):
    return Final(
        segment=1, turn=1, reason=reason, text=text, start=start, end=end, logprob=-0.1,
        words=[Word(*word) for word in words], rejected=rejected,
    )  # fmt: skip


def ended(at=1.5, turn=1):
    return SpeechEnd(turn=turn, at=at)


HELLO = [(" Hello,", 0.6, 0.9, -0.1), (" don’t", 0.9, 1.1, 0.0), (" —", 1.1, 1.2, -9.0)]


def test_the_query_is_the_session():
    assert start() == Start(
        encoding="pcm_s16le", sample_rate=16000, partials=False, words=True, endpoint_ms=300
    )
    assert start(interim_results="true").partials
    assert start(channels="2").channels == 2
    assert start(channels="2", multichannel="false").channels == 2
    assert start(channels="1", multichannel="true").channels == 1


@pytest.mark.parametrize(
    ("encoding", "rate", "native", "heard"),
    [
        ("linear16", "48000", "pcm_s16le", 48000),
        ("linear32", "24000", "pcm_f32le", 24000),
        ("mulaw", "8000", "mulaw", 8000),
        ("alaw", "", "alaw", 8000),
        ("MULAW", "", "mulaw", 8000),
    ],
)
def test_encodings(encoding, rate, native, heard):
    said = start(encoding=encoding, sample_rate=rate)
    assert (said.encoding, said.sample_rate) == (native, heard)


@pytest.mark.parametrize(
    ("endpointing", "silence"),
    [("", 300), ("true", 300), ("0", 300), ("10", 300), ("300", 300), ("301", 301), ("1000", 1000),
     ("60000", 10_000), ("false", 500)],
)  # fmt: skip
def test_endpointing_below_300_ms_ends_no_turn_sooner(endpointing, silence):
    assert start(endpointing=endpointing).endpoint_ms == silence


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"encoding": "opus"}, "linear16, linear32, mulaw, alaw"),
        ({"encoding": "flac"}, "WAV"),
        ({"sample_rate": ""}, "sample_rate"),
        ({"sample_rate": "16k"}, "sample_rate"),
        ({"sample_rate": "-16000"}, "sample_rate"),
        ({"sample_rate": "9999999999999"}, "sample_rate"),
        ({"sample_rate": "12345"}, "16000"),
        ({"channels": "0"}, "channels"),
        ({"channels": "9"}, "channels"),
        ({"channels": "2", "multichannel": "true"}, "multichannel"),
        ({"interim_results": "perhaps"}, "interim_results"),
        ({"endpointing": "soon"}, "endpointing"),
        ({"endpointing": "-1"}, "endpointing"),
        ({"utterance_end_ms": "999", "interim_results": "true"}, "1000"),
        ({"utterance_end_ms": "1000"}, "interim_results"),
        ({"language": "fr"}, "fr"),
        ({"language": "multi"}, "en"),
        ({"callback": "https://example.com"}, "callback"),
        ({"redact": "pii"}, "redact"),
    ],
)
def test_what_is_not_taken_is_refused_before_there_is_a_socket(query, said):
    with pytest.raises(ProtocolError) as caught:
        opened(**query)
    complaint = Listen.complaint(caught.value)
    assert set(complaint) == {"err_code", "err_msg", "request_id"}
    assert said in complaint["err_msg"]
    assert caught.value.fix in complaint["err_msg"]


def test_flags_that_are_not_known_are_left_out():
    assert start(punctuate="x", diarize="true", keyterm="a", tag="b", whatever="") == start()
    assert start(language="en-US") == start(language="EN") == start()


def test_keys_are_refused_in_deepgrams_word_for_it():
    refusal = NotAdmitted("key_unknown", "the key is none of ours", "Use another.", 401)
    assert Listen.complaint(refusal)["err_code"] == "INVALID_AUTH"


def test_messages():
    dialect = opened()
    dialect.hello()
    assert ask(dialect, "KeepAlive") == []
    assert ask(dialect, "Finalize", channel=0) == [Flush()]
    assert ask(dialect, "CloseStream") == [Stop()]
    assert dialect.hear(b"\1\2") == [b"\1\2"]
    assert dialect.hear(b"") == [Stop()]


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"type":"Start"}', b'{"type":7}', b"{}", b"[" * 10_000,
     b'{"type":"Configure","keyterms":1}'],
)  # fmt: skip
def test_a_message_that_is_not_understood_is_answered_and_ends_nothing(text):
    dialect = opened()
    dialect.hello()
    (said,) = answers(dialect, dialect.read(text))
    assert (said["type"], said["variant"]) == ("Error", "SchemaError")
    assert "KeepAlive" in said["description"]
    assert ask(dialect, "Finalize") == [Flush()]


def test_configure_is_answered():
    dialect = opened()
    (said,) = answers(dialect, ask(dialect, "Configure", features={"numerals": True}))
    assert said["type"] == "ConfigureSuccess"
    (said,) = answers(dialect, ask(dialect, "Configure", keyterms=["x"]))
    assert said["code"] == "CONFIGURE_KEYTERMS_NOT_SUPPORTED"


def test_a_turn():
    dialect = opened(interim_results="true", vad_events="true")
    dialect.hello()
    said = told(
        dialect, began(), partial("", "Hell"), partial("Hello,", " don’t"),
        final(" Hello, don’t — ", words=HELLO), ended(),
    )  # fmt: skip
    assert [each["type"] for each in said] == ["SpeechStarted", "Results", "Results", "Results"]
    assert said[0] == {"type": "SpeechStarted", "channel": [0, 1], "timestamp": 0.5}
    one, two, last = said[1:]
    assert {each["start"] for each in (one, two, last)} == {0.5}
    assert [each["duration"] for each in (one, two, last)] == [0.5, 0.5, 1.25]
    assert [each["is_final"] for each in (one, two, last)] == [False, False, True]
    assert [each["speech_final"] for each in (one, two, last)] == [False, False, True]
    assert not last["from_finalize"]
    heard = [each["channel"]["alternatives"][0] for each in (one, two, last)]
    assert [each["transcript"] for each in heard] == ["Hell", "Hello, don’t", "Hello, don’t —"]
    assert [each["confidence"] for each in heard[:2]] == [0.0, 0.5]
    assert heard[1]["words"] == []
    assert heard[2]["words"][:2] == [
        {"word": "hello", "start": 0.6, "end": 0.9, "confidence": 0.9048,
         "punctuated_word": "Hello,"},
        {"word": "don’t", "start": 0.9, "end": 1.1, "confidence": 1.0, "punctuated_word": "don’t"},
    ]  # fmt: skip
    assert heard[2]["words"][2]["word"] == "—"
    assert heard[2]["confidence"] == round((0.9048 + 1 + round(math.exp(-9), 4)) / 3, 4)
    assert last["channel_index"] == [0, 1]
    assert last["metadata"]["model_info"]["name"] == "moonshine-tiny-en"
    assert len({each["metadata"]["request_id"] for each in said[1:]}) == 1


def test_a_turn_of_several_segments_ends_once():
    dialect = opened()
    said = told(
        dialect, began(), final("It was", "cap", 0.5, 16.0), final("late.", "endpoint", 16.0, 17.5)
    )
    assert [each["speech_final"] for each in said] == [False, True]
    assert [each["is_final"] for each in said] == [True, True]
    assert said[1]["start"] == said[0]["start"] + said[0]["duration"]


def test_without_endpointing_no_turn_ends():
    (said,) = told(opened(endpointing="false"), final("Yes."))
    assert (said["is_final"], said["speech_final"]) == (True, False)


def test_words_without_times_have_the_confidence_of_their_text():
    (said,) = told(opened(), final("Yes."))
    assert said["channel"]["alternatives"][0]["confidence"] == 0.9048
    (said,) = told(opened(), final("", rejected="loops"))
    assert said["channel"]["alternatives"][0] == {"transcript": "", "confidence": 0.0, "words": []}


def finalized(said):
    return [each["from_finalize"] for each in said if each["type"] == "Results"]


def test_every_finalize_has_one_answer():
    dialect = opened()
    assert finalized(told(dialect, began(), final("Yes.", "flush"), ended(), Flushed())) == [True]
    (nothing,) = told(dialect, Flushed())
    assert nothing["from_finalize"]
    assert nothing["is_final"]
    assert (nothing["start"], nothing["duration"]) == (1.75, 0.0)
    assert nothing["channel"]["alternatives"][0]["transcript"] == ""
    # one that came while a final was under way
    assert finalized(told(dialect, began(3), final("No."), ended(4), Flushed())) == [False, True]


def test_closing_tells_of_all_the_audio():
    dialect = opened()
    dialect.hello()
    dialect.hear(SECOND)
    dialect.hear(b"\1\2")
    said = told(dialect, began(), final("Yes.", "stop"), ended(), Closed(
        reason="stop", audio_seconds=1.001))  # fmt: skip
    assert [each["type"] for each in said] == ["Results", "Metadata"]
    assert said[0]["speech_final"]
    metadata = said[1]
    assert metadata["sha256"] == hashlib.sha256(SECOND + b"\1\2").hexdigest()
    assert (metadata["duration"], metadata["channels"]) == (1.001, 1)
    assert metadata["request_id"] == said[0]["metadata"]["request_id"]
    assert metadata["created"].endswith("Z")


def test_errors():
    dialect = opened()
    (said,) = told(dialect, Error(code="too_big", message="a large one", fix="Send less."))
    assert said == {
        "type": "Error", "variant": "too_big", "description": "a large one. Send less.",
        "message": "",
    }  # fmt: skip
    error = dialect.silent()
    assert (error.code, error.close_code) == ("NET-0001", 1011)
    assert told(dialect, Ready(
        session="x", resume="y", next_sample=0, model="m", device="cpu", sample_rate=16000)
    ) == []  # fmt: skip


# -- silence


def paused(**query):
    dialect = opened(utterance_end_ms="1000", interim_results="true", **query)
    dialect.hello()
    return dialect


def spoke(dialect, at=0.5):
    told(dialect, began(at), final("Hello.", words=[("Hello.", at, at + 1, -0.1)]), ended(at + 1.1))


def sent(dialect, seconds):
    acts = dialect.hear(bytes(int(seconds * 32000)))
    return answers(dialect, acts)


def test_silence_is_told_while_it_is_silent():
    dialect = paused()
    sent(dialect, 2.0)
    spoke(dialect)  # known at 1.9 s
    assert sent(dialect, 0.7) == []
    assert sent(dialect, 0.3) == [{"type": "UtteranceEnd", "channel": [0, 1], "last_word_end": 1.5}]
    assert sent(dialect, 9.0) == []
    assert told(dialect, began(9.5)) == []


def test_silence_is_not_told_where_somebody_speaks():
    dialect = paused()
    sent(dialect, 2.0)
    spoke(dialect)
    told(dialect, began(2.2))
    assert sent(dialect, 9.0) == []
    assert told(dialect, final("Yes."), ended(3.0)) [0]["type"] == "Results"  # fmt: skip


def test_a_client_far_ahead_hears_of_silence_with_the_next_event():
    dialect = paused()
    sent(dialect, 60.0)
    spoke(dialect)
    assert sent(dialect, 10.0) == []
    assert [each["type"] for each in told(dialect, began(2.4))] == []  # 0.9 s: too short
    spoke(dialect, 2.4)
    assert [each["type"] for each in told(dialect, began(4.5))] == ["UtteranceEnd"]
    spoke(dialect, 4.5)
    said = told(dialect, Closed(reason="stop", audio_seconds=70.0))
    assert [each["type"] for each in said] == ["UtteranceEnd", "Metadata"]


def test_speech_that_is_known_of_in_the_last_moment_takes_the_silence_back():
    dialect = paused()
    sent(dialect, 2.0)
    spoke(dialect)
    acts = dialect.hear(bytes(32000 * 2))
    told(dialect, began(2.4))
    assert answers(dialect, acts) == []


def test_silence_after_no_words_is_not_told():
    dialect = paused()
    told(dialect, began(), final("", rejected="loops"), ended())
    assert sent(dialect, 9.0) == []


@given(
    st.dictionaries(
        st.sampled_from([
            "encoding", "sample_rate", "channels", "interim_results", "endpointing", "language",
            "utterance_end_ms", "vad_events", "multichannel", "callback", "x",
        ]),
        st.text(max_size=6) | st.sampled_from(
            ["linear16", "mulaw", "16000", "8000", "1", "true", "false", "1000", "en", ""]
        ),
    ),
    st.lists(st.binary(max_size=40) | st.sampled_from(
        [b'{"type":"Finalize"}', b'{"type":"KeepAlive"}', b'{"type":"CloseStream"}']
    ), max_size=8),
)  # fmt: skip
def test_any_query_and_any_messages_are_answered_or_refused(query, messages):
    try:
        dialect = Listen(Asked(query=query, languages=("en",)))
        for act in dialect.hello():
            assert isinstance(act, Start)
        for message in messages:
            for act in [*dialect.read(message), *dialect.hear(message)]:
                if isinstance(act, Answer):
                    assert told(dialect, act)
    except ProtocolError as error:
        said = Listen.complaint(error)["err_msg"]
    else:
        said = "answered"
    assert said


# -- WAV


def wav(samples=b"\1\0" * 100, code=1, bits=16, rate=16000, channels=1, size=None, before=b"",
        behind=b""):  # fmt: skip
    block = bits // 8 * channels
    form = np.array([code, channels], "<u2").tobytes() + np.array([rate, rate * block], "<u4"
           ).tobytes() + np.array([block, bits], "<u2").tobytes()  # fmt: skip
    if code == 0xFFFE:
        form += bytes([22, 0, bits, 0, 0, 0, 0, 0, 3, 0]) + bytes(14)
    size = len(samples) if size is None else size
    return (
        b"RIFF" + bytes(4) + b"WAVE" + before + b"fmt " + len(form).to_bytes(4, "little") + form
        + b"data" + size.to_bytes(4, "little") + samples + behind
    )  # fmt: skip


LIST = b"LIST" + (6).to_bytes(4, "little") + b"abcdef"


def heard(data, step):
    """What a session is asked for where a file comes in pieces."""
    dialect = Listen(Asked(query={"model": "x"}, languages=("en",)))
    assert dialect.hello() == []
    acts = [act for at in range(0, len(data), step) for act in dialect.hear(data[at : at + step])]
    begin = acts[0] if acts else None
    assert all(isinstance(act, bytes) for act in acts[1:])
    return begin, b"".join(acts[1:])


@pytest.mark.parametrize("step", [1, 3, 20, 44, 1000])
def test_a_wav_file_in_pieces(step):
    samples = bytes(range(200))
    begin, audio = heard(wav(samples, before=LIST, rate=24000, channels=2), step)
    assert (begin.encoding, begin.sample_rate, begin.channels) == ("pcm_s16le", 24000, 2)
    assert audio == samples


@pytest.mark.parametrize(
    ("code", "bits", "native"),
    [(1, 16, "pcm_s16le"), (3, 32, "pcm_f32le"), (6, 8, "alaw"), (7, 8, "mulaw"),
     (0xFFFE, 32, "pcm_f32le")],
)  # fmt: skip
def test_kinds_of_wav_files(code, bits, native):
    begin, audio = heard(wav(code=code, bits=bits), 50)
    assert begin.encoding == native
    assert audio == b"\1\0" * 100


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_what_follows_the_samples(step):
    samples = b"\1\0" * 100
    assert heard(wav(samples, behind=LIST + samples), step)[1] == samples
    assert heard(wav(samples, size=0, behind=samples), step)[1] == samples * 2
    assert heard(wav(samples, size=0xFFFFFFFF), step)[1] == samples
    # a length that was wrong: samples go on
    assert heard(wav(samples, behind=b"\1\0" * 50), step)[1] == b"\1\0" * 150
    odd = wav(b"\5" * 3, code=7, bits=8, behind=b"\0" + LIST)
    assert heard(odd, step)[1] == b"\5" * 3


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x1aE\xdf\xa3", "encoding"),
        (b"OggS" + bytes(50), "encoding"),
        (b"RIFF" + bytes(4) + b"AVI ", "WAV"),
        (wav(bits=24), "24 bits"),
        (wav(code=2), "format 2"),
        (wav(rate=12345), "12345"),
        (wav(channels=9), "9 channels"),
        (wav()[:12] + b"data" + bytes(4), "how its samples are written"),
        (wav()[:12] + b"fmt " + (4).to_bytes(4, "little") + bytes(4), "cut short"),
        (wav()[:12] + b"fmt " + (1 << 20).to_bytes(4, "little") + bytes(20), "65536"),
        (wav(before=b"JUNK" + (1 << 20).to_bytes(4, "little") + bytes(70_000)), "65536"),
    ],
)
def test_what_is_no_wav_file_is_refused(data, said):
    with pytest.raises(ProtocolError) as caught:
        heard(data, 4096)
    assert (caught.value.code, caught.value.close_code) == ("DATA-0000", 1008)
    assert said in caught.value.message


def test_a_stream_that_has_not_begun_is_finalized_and_closed():
    dialect = Listen(Asked())
    (said,) = answers(dialect, ask(dialect, "Finalize"))
    assert said["from_finalize"]
    begin, end = ask(dialect, "CloseStream")
    assert isinstance(begin, Start)
    assert end == Stop()


def test_channels_of_a_file_are_not_told_apart():
    dialect = Listen(Asked(query={"multichannel": "true"}))
    with pytest.raises(ProtocolError, match="multichannel"):
        dialect.hear(wav(channels=2))

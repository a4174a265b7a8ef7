"""WhisperLive's messages, and what its client makes of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.audio.codec import Decoder
from edge_runtime.dialects import Asked
from edge_runtime.dialects.whisper_live import WhisperLive
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Closed, Error, Final, Partial, Ready, Start, Stop, Word

READY = Ready(session="s", resume="r", next_sample=0, model="m", device="d", sample_rate=16000)
# what the client of 0.10.0 says first
OPTIONS = {
    "uid": "7d3e", "language": "en", "task": "transcribe", "model": "small", "use_vad": True,
    "send_last_n_segments": 10, "no_speech_thresh": 0.45, "clip_audio": False,
    "same_output_threshold": 10, "enable_translation": False, "target_language": "fr",
    "hotwords": None, "enable_diarization": False, "max_speakers": 10, "known_speakers": [],
    "word_timestamps": False, "initial_prompt": None, "vad_parameters": None,
}  # fmt: skip


def read(dialect, **options):
    return dialect.read(json.dumps({**OPTIONS, **options}).encode())


def opened(**options):
    dialect = WhisperLive(Asked(languages=("en",)))
    assert dialect.hello() == []
    read(dialect, **options)
    return dialect


def told(dialect, *events):
    said = [json.loads(wire) for event in events for wire in dialect.write(event)]
    assert {each.pop("uid") for each in said} <= {"7d3e"}
    return said


def partial(text, start=0.5, end=1.0):
    return Partial(segment=1, stable=text[:3], unstable=text[3:], start=start, end=end)


def final(text, start=0.5, end=1.5, words=None):
    return Final(
        segment=1, turn=1, reason="endpoint", text=text, start=start, end=end, logprob=-0.5,
        words=words,
    )  # fmt: skip


class Reader:
    """The rules by which the stock client keeps segments, and what it writes at the end."""

    def __init__(self):
        self.transcript, self.last = [], None

    def hear(self, segments):
        texts = []
        for index, segment in enumerate(segments):
            if texts and texts[-1] == segment["text"]:
                continue
            texts.append(segment["text"].strip())
            if index == len(segments) - 1 and not segment.get("completed", False):
                self.last = segment
            elif segment.get("completed", False):
                before = self.transcript[-1]["end"] if self.transcript else 0
                if float(segment["start"]) >= float(before):
                    self.transcript.append(segment)

    @property
    def written(self):
        kept = [segment["text"] for segment in self.transcript]
        if self.last and (not kept or kept[-1] != self.last["text"]):
            kept.append(self.last["text"])
        return "".join(kept).strip()


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({}, Start(encoding="pcm_f32le")),
        ({"audio_format": "float32", "language": None}, Start(encoding="pcm_f32le")),
        ({"audio_format": "int16", "language": "en-US"}, Start(encoding="pcm_s16le")),
        ({"audio_format": "uint8", "word_timestamps": True},
         Start(encoding="pcm_s16le", words=True)),
    ],
)  # fmt: skip
def test_the_options_open_the_session(options, start):
    assert read(WhisperLive(Asked(languages=("en",))), **options) == [start]


def test_it_is_ready_when_the_session_is():
    ready = {"message": "SERVER_READY", "backend": "faster_whisper"}
    assert told(opened(), READY) == [ready]
    assert told(opened(language=None), READY) == [ready, {"language": "en", "language_prob": 1.0}]
    _, warning = told(opened(enable_translation=True), READY)
    assert warning["status"] == "WARNING"


def test_what_is_spoken_is_translated_where_a_model_does():
    models = {"small-en": ("en",), "large": ("en", "fr")}
    asked = Asked(model="small-en", languages=("en",), models=models, translators=["large"])
    for name in ("small", "large"):
        (start,) = read(dialect := WhisperLive(asked), task="translate", language="fr", model=name)
        assert (start.task, start.model, start.language) == ("translate", "large", "fr")
        assert len(told(dialect, READY)) == 1
    (start,) = read(dialect := WhisperLive(asked), task="translate", model="small-en")
    assert (start.task, start.model) == ("transcribe", "small-en")
    _, warning = told(dialect, READY)
    assert warning["status"] == "WARNING"


@pytest.mark.parametrize("kind", ["float32", "int16", "uint8"])
def test_audio_of_every_format_is_the_same(kind):
    dialect = opened(audio_format=kind)
    samples = np.array([-128, -1, 0, 1, 127], np.int16)
    data = {
        "float32": (samples / 128).astype("<f4"),
        "int16": samples << 8,
        "uint8": (samples + 128).astype(np.uint8),
    }[kind].tobytes()
    encoding = "pcm_f32le" if kind == "float32" else "pcm_s16le"
    (heard,) = dialect.hear(data)
    assert Decoder(encoding).push(heard).tolist() == (samples / 128).tolist()


def test_the_end():
    assert opened().hear(b"END_OF_AUDIO") == [Stop()]
    assert opened().read(b"END_OF_AUDIO") == [Stop()]  # browsers
    assert told(opened(), Closed(reason="stop", audio_seconds=1.0)) == []
    assert told(opened(), Closed(reason="idle", audio_seconds=1.0)) == [{"message": "DISCONNECT"}]


def test_segments_are_told_with_those_before():
    dialect = opened(send_last_n_segments=2)
    said = told(
        dialect, partial(""), partial("It"), partial("It"), partial("It was", end=1.2),
        final("It was.", end=1.5),
    )  # fmt: skip
    assert [each["segments"] for each in said] == [
        [{"start": "0.500", "end": "1.000", "text": " It", "completed": False}],
        [{"start": "0.500", "end": "1.200", "text": " It was", "completed": False}],
        [{"start": "0.500", "end": "1.500", "text": " It was.", "completed": False}],
        [{"start": "0.500", "end": "1.500", "text": " It was.", "completed": True}],
    ]
    told(dialect, final("Two.", 2, 3), final("Three.", 4, 5))
    (said,) = told(dialect, partial("Four", 6, 7))
    assert [each["text"] for each in said["segments"]] == [" Two.", " Three.", " Four"]


def test_words_have_their_times():
    words = [Word("It", 0.5, 0.75, 0.0), Word("was.", 0.75, 1.25, -1.0)]
    *_, said = told(opened(word_timestamps=True), final("It was.", words=words))
    assert said["segments"][-1]["words"] == [
        {"word": " It", "start": "0.500", "end": "0.750", "probability": 1.0},
        {"word": " was.", "start": "0.750", "end": "1.250", "probability": 0.3679},
    ]


TEXTS = st.lists(st.text("ab .", max_size=5).map(str.strip), max_size=6)


@given(TEXTS, st.data())
def test_the_client_keeps_each_final_once(texts, data):
    """Repeated ones, such that overlap, and where the last partial was another text."""
    dialect, reader = opened(), Reader()
    for number, text in enumerate(texts):
        events = [final(text, number - 0.2, number + 1)]
        if text:  # one that is not believed leaves a cue that is empty
            events.insert(0, partial(data.draw(st.text("ab .", max_size=5)), number, number + 0.5))
        for said in told(dialect, *events):
            reader.hear(said["segments"])
    assert reader.written == " ".join(text for text in texts if text)


@pytest.mark.parametrize("code", ["full", "not_ready"])
def test_who_must_wait_is_told_so(code):
    (said,) = told(opened(), Error(code=code, message="no room", fix="Wait."))
    assert said["status"] == "WAIT"
    assert round(said["message"]) == 1


def test_what_breaks_a_session_is_told():
    (said,) = told(opened(), Error(code="device", message="it is gone", fix="Restart."))
    assert said == {"status": "ERROR", "message": "it is gone. Restart."}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"", "bad_message"),
        (b"\xff", "bad_message"),
        (b"[]", "bad_message"),
        (b"[" * 5000, "bad_message"),
        (b"{}", "bad_message"),
        (b'{"uid":7}', "bad_message"),
        (b'{"uid":"%s"}' % (b"x" * 201), "bad_message"),
        (b'{"uid":"x","audio_format":"mp3"}', "bad_message"),
        (b'{"uid":"x","language":"fr"}', "unsupported_language"),
    ],
)
def test_what_is_wrong_is_said(message, code):
    with pytest.raises(ProtocolError) as caught:
        WhisperLive(Asked(languages=("en",))).read(message)
    assert caught.value.code == code


def test_options_come_first_and_once():
    with pytest.raises(ProtocolError, match="before the options"):
        WhisperLive(Asked()).hear(b"\0\0\0\0")
    with pytest.raises(ProtocolError, match="after the first"):
        read(opened())


@pytest.mark.parametrize("most", [-5, 0, 1, 10**9])
def test_few_segments_are_told_whatever_is_asked_for(most):
    dialect = opened(send_last_n_segments=most)
    for number in range(120):
        said = told(dialect, final("Yes.", number, number + 1))
    assert len(said[-1]["segments"]) == min(max(most, 1), 100)

"""A client's name of a model: one that is served is chosen, any other means the default."""

from __future__ import annotations

import json

import pytest

from edge_runtime.dialects import Answer, Asked
from edge_runtime.dialects.deepgram.listen import Listen
from edge_runtime.dialects.deepgram.prerecorded import Prerecorded
from edge_runtime.dialects.openai.models import model, models
from edge_runtime.dialects.openai.realtime import Realtime
from edge_runtime.dialects.openai.transcriptions import Transcriptions
from edge_runtime.dialects.whisper_live import WhisperLive
from edge_runtime.dialects.wyoming.asr import Wyoming
from edge_runtime.dialects.wyoming.event import encode
from edge_runtime.errors import ProtocolError
from edge_runtime.events import Start

SERVED = {"small-en": ("en",), "large": ("de", "en")}
ASKED = Asked(model="small-en", languages=("en",), models=SERVED)
RAW = {"encoding": "linear16", "sample_rate": "16000"}
FORMAT = {"rate": 16000, "width": 2, "channels": 1}


def realtime(name, language=None):
    dialect = Realtime(ASKED)
    spoken = {"model": name, "language": language}
    session = {"type": "transcription", "audio": {"input": {"transcription": spoken}}}
    update(dialect, session)
    return started(dialect.read(b'{"type":"input_audio_buffer.append","audio":"AAAA"}'))


def update(dialect, session):
    message = {"type": "session.update", "session": session}
    (answer,) = dialect.read(json.dumps(message).encode())
    assert isinstance(answer, Answer)
    if answer.what["type"] == "error":
        raise ProtocolError("refused", str(answer.what), "")
    return answer.what["session"]


def realtime_by_query(name, language=None):
    dialect = Realtime(asked(query={"model": name}))
    return started(dialect.read(b'{"type":"input_audio_buffer.append","audio":"AAAA"}'))


def listen(name, language=None):
    query = {**RAW, "model": name, **({"language": language} if language else {})}
    return started(Listen(asked(query=query)).hello())


def whisper_live(name, language=None):
    options = {"uid": "u", "model": name, "language": language}
    return started(WhisperLive(ASKED).read(json.dumps(options).encode()))


def wyoming(name, language=None):
    dialect = Wyoming(ASKED)
    dialect.read(encode("transcribe", name=name, language=language))
    return started(dialect.read(encode("audio-start", **FORMAT)))


def transcriptions(name, language=None):
    fields = {"model": [name], **({"language": [language]} if language else {})}
    return Transcriptions(ASKED, fields).asked.chosen


def prerecorded(name, language=None):
    query = {"model": name, **({"language": language} if language else {})}
    return Prerecorded(asked(query=query), {}).asked.chosen


def asked(**request):
    return Asked(model="small-en", languages=("en",), models=SERVED, **request)


def started(acts):
    (start,) = [act for act in acts if isinstance(act, Start)]
    return start.model


SPEAKERS = [
    realtime, realtime_by_query, listen, whisper_live, wyoming, transcriptions, prerecorded,
]  # fmt: skip


@pytest.mark.parametrize("speak", SPEAKERS)
def test_one_that_is_served_is_chosen_and_others_mean_the_default(speak) -> None:
    assert speak("large") == "large"
    assert speak("small-en") == "small-en"
    for name in ("gpt-4o-transcribe", "nova-3", "small", ""):
        assert speak(name) is None


@pytest.mark.parametrize("speak", [each for each in SPEAKERS if each is not realtime_by_query])
def test_a_language_is_one_of_the_chosen_models(speak) -> None:
    assert speak("large", "de") == "large"
    with pytest.raises(ProtocolError, match="de"):
        speak("nova-3", "de")


def test_a_realtime_session_tells_its_model_and_keeps_it() -> None:
    dialect = Realtime(asked(query={"model": "large"}))
    (answer,) = dialect.hello()
    assert told(answer.what["session"]) == "large"
    german = {"transcription": {"language": "de"}}
    update(dialect, {"type": "transcription", "audio": {"input": german}})
    acts = dialect.read(b'{"type":"input_audio_buffer.append","audio":"AAAA"}')
    assert started(acts) == "large"
    other = {"transcription": {"model": "small-en"}}
    with pytest.raises(ProtocolError, match="settled by the first audio"):
        update(dialect, {"type": "transcription", "audio": {"input": other}})


def told(session):
    return session["audio"]["input"]["transcription"]["model"]


def test_each_utterance_of_wyoming_chooses_anew() -> None:
    dialect = Wyoming(ASKED)
    for name, chosen in (("large", "large"), (None, None), ("small-en", "small-en"), ("x", None)):
        dialect.read(encode("transcribe", name=name))
        assert started(dialect.read(encode("audio-start", **FORMAT))) == chosen
        dialect.read(encode("audio-stop"))


def test_lists_have_all_the_default_first() -> None:
    status, said = models(ASKED)
    assert (status, [each["id"] for each in said["data"]]) == (200, ["small-en", "large"])
    assert model(ASKED, "large")[0] == 200
    assert model(ASKED, "whisper-1")[0] == 404
    assert models(Asked())[1]["data"] == []
    dialect = Wyoming(ASKED)
    (answer,) = dialect.read(encode("describe"))
    line = b"".join(answer.what)
    assert line.index(b'"small-en"') < line.index(b'"large"')

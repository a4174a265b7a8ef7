"""Live audio and recordings through the `deepgram-sdk` package, unmodified, against the real
server."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io

import httpx
import numpy as np
import pytest
import pytest_asyncio
import soundfile
import soxr
from deepgram import AsyncDeepgramClient, DeepgramClient, DeepgramClientEnvironment
from deepgram.core.api_error import ApiError
from deepgram.core.events import EventType
from deepgram.errors import BadRequestError

from edge_runtime.audio.codec import Decoder
from edge_runtime.config import Admitting, Config, Serving
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing
from edge_runtime.runtime import Runtime
from edge_runtime.server import Limits
from tests.conftest import hosts

# said by `deepgram-sdk` as it loads its clients
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore:websockets:DeprecationWarning"),
]

CLIP = "4640-19188-0003"
SECONDS = 1.5  # of silence at the end, which ends the last turn


def where(server):
    base, sockets = server.url, server.url.replace("http", "ws")
    return DeepgramClientEnvironment(base=base, production=sockets, agent=sockets, agent_rest=base)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served():
    """A server for all tests, and a client of it."""
    config = Config(serving=Serving(port=0), admitting=Admitting(keys="never"))
    try:
        Store().weights(load_recipe(config.serving.model))
    except ModelMissing as missing:
        pytest.skip(str(missing))
    async with hosts() as start, httpx.AsyncClient() as http:
        server = await start(
            config, lambda metrics: Runtime(config, metrics=metrics), Limits(linger=2.0)
        )
        yield (
            server,
            AsyncDeepgramClient(api_key="none", environment=where(server), httpx_client=http),
        )
        assert server.runtime.sessions == 0


def pcm(clip, rate=None):
    """A clip as `linear16`, and silence behind it."""
    rate = rate or clip.rate
    audio = clip.audio if rate == clip.rate else soxr.resample(clip.audio, clip.rate, rate)
    audio = np.pad(np.clip(audio, -1, 1), (0, int(SECONDS * rate)))
    return np.rint(audio * 32767).astype("<i2").tobytes()


async def talk(made, data, *, rate=16000, pace=0.0, finalize=False, **query):
    """Everything that a client is told."""
    query = {"encoding": "linear16", "sample_rate": rate, **query}
    messages = []
    async with made.listen.v1.connect(model="nova-3", **query) as socket:
        socket.on(EventType.MESSAGE, messages.append)
        listening = asyncio.create_task(socket.start_listening())
        for first in range(0, len(data), 3200):
            await socket.send_media(data[first : first + 3200])
            await asyncio.sleep(0.1 * pace)
        if finalize:
            await socket.send_finalize()
        await socket.send_close_stream()
        await asyncio.wait_for(listening, 60)
    check(messages)
    return messages


def results(messages, **wanted):
    return [
        message
        for message in messages
        if message.type == "Results" and all(getattr(message, k) == v for k, v in wanted.items())
    ]


def heard(result):
    return result.channel.alternatives[0]


def text(messages):
    parts = [heard(result).transcript for result in results(messages, is_final=True)]
    return " ".join(part for part in parts if part)


def check(messages):
    """An interim is of what is not final yet; what is final stays; Metadata is last."""
    frozen = 0.0
    for result in results(messages):
        assert result.start >= frozen - 0.001
        if result.is_final:
            frozen = result.start + result.duration
            words = heard(result).words
            assert " ".join(word.punctuated_word for word in words) == heard(result).transcript
            times = [time for word in words for time in (word.start, word.end)]
            assert times == sorted(times)
            assert all(0 < word.confidence <= 1 for word in words)
    starts = {}
    for result in results(messages):
        if result.is_final and heard(result).transcript:
            assert starts.pop("open", result.start) == result.start
        elif not result.is_final:
            assert starts.setdefault("open", result.start) == result.start
        else:
            starts.clear()
    assert [message.type for message in messages].count("Metadata") == 1
    assert messages[-1].type == "Metadata"


async def test_texts_are_those_of_the_native_protocol(served, read, clip, clips):
    """Word for word, for the same audio and the same silence at the end of a turn."""
    server, made = served
    speech = [each for each in map(clip, clips) if each.audio.ndim == 1]
    for first in range(0, len(speech), 4):  # several at once
        said = [(pcm(each), each.rate) for each in speech[first : first + 4]]
        for endpointing, silence in ((10, 300), (800, 800)) if not first else ((10, 300),):
            native = await asyncio.gather(*(
                server.say(data, sample_rate=rate, partials=False, words=True, endpoint_ms=silence)
                for data, rate in said
            ))  # fmt: skip
            told = await asyncio.gather(*(
                talk(made, data, rate=rate, endpointing=endpointing) for data, rate in said
            ))  # fmt: skip
            assert [text(each) for each in told] == [read.text(each) for each in native]
            for messages, events, (data, rate) in zip(told, native, said, strict=True):
                ends = [event for event in events if event["type"] == "speech_end"]
                assert len(results(messages, speech_final=True)) == len(ends)
                assert messages[-1].sha256 == hashlib.sha256(data).hexdigest()
                assert messages[-1].duration == pytest.approx(len(data) / 2 / rate, abs=0.001)


async def test_paced_like_a_microphone_words_come_while_they_are_spoken(served, clip):
    _, made = served
    messages = await talk(
        made, pcm(clip(CLIP)), pace=0.7, interim_results="true", vad_events="true",
        utterance_end_ms=1000, endpointing=300,
    )  # fmt: skip
    kinds = [message.type for message in messages]
    assert kinds[0] == "SpeechStarted"
    interim, final = results(messages, is_final=False), results(messages, is_final=True)
    assert messages.index(interim[0]) < messages.index(final[0])
    last = results(messages, speech_final=True)[-1]
    at = messages.index(last)
    assert [message.type for message in messages[at:]] == ["Results", "UtteranceEnd", "Metadata"]
    assert messages[at + 1].last_word_end == heard(last).words[-1].end


async def test_finalize_is_answered(served, clip):
    _, made = served
    data = pcm(clip(CLIP))
    spoken = data[: len(data) - int(SECONDS * 32000)]
    for audio in (spoken, b""):
        messages = await talk(made, audio, finalize=True, endpointing="false")
        (answer,) = results(messages, from_finalize=True)
        assert answer.is_final
        assert bool(heard(answer).transcript) is bool(audio)


@pytest.mark.parametrize("encoding", ["linear32", "mulaw", "alaw", "wav"])
async def test_encodings(served, read, clip, encoding, flac):
    """What the native protocol makes of the same bytes, or of the samples of the file."""
    server, made = served
    speech = clip(CLIP)
    query = {"encoding": encoding, "rate": speech.rate}
    if encoding == "linear32":
        data, native = speech.audio.astype("<f4").tobytes(), "pcm_f32le"
    elif encoding == "wav":
        data, native = wav(speech), "pcm_s16le"
        query = {"encoding": None, "rate": None}
    else:
        data, native = companded(soxr.resample(speech.audio, speech.rate, 8000), encoding), encoding
        query["rate"] = 8000
    samples = data[44:] if encoding == "wav" else data
    events = await server.say(
        samples, encoding=native, sample_rate=query["rate"] or speech.rate, partials=False,
        words=True, endpoint_ms=300,
    )  # fmt: skip
    assert text(await talk(made, data, **query)) == read.text(events) != ""


async def test_a_client_that_blocks(served, clip):
    """The other one of the package, on a thread."""
    server, _ = served

    def run():
        with httpx.Client() as http:
            made = DeepgramClient(api_key="none", environment=where(server), httpx_client=http)
            query = {"encoding": "linear16", "sample_rate": 16000}
            with made.listen.v1.connect(model="nova-3", **query) as socket:
                socket.send_media(pcm(clip(CLIP))[:96000])
                socket.send_keep_alive()
                socket.send_close_stream()
                return list(socket)

    messages = await asyncio.to_thread(run)
    check(messages)
    assert text(messages)


async def test_recordings_are_those_of_transcribe(served, clip, clips, flac, transcribed):
    _, made = served
    for first in range(0, len(clips), 4):  # several at once
        files = [flac(clip(name)) for name in clips[first : first + 4]]
        answers = await asyncio.gather(*(write(made, data, utterances=True) for data in files))
        for answer, data in zip(answers, files, strict=True):
            wanted = transcribed(data)
            alternative = answer.results.channels[0].alternatives[0]
            assert alternative.transcript == wanted.text != ""
            assert [each.transcript for each in answer.results.utterances] == list(wanted.turns)
            assert answer.metadata.duration == wanted.seconds
            assert answer.metadata.sha256 == hashlib.sha256(data).hexdigest()
            assert 0 < alternative.confidence <= 1
            words = [word.punctuated_word for word in alternative.words]
            assert " ".join(words) == wanted.text


def write(made, data, **query):
    return made.listen.v1.media.transcribe_file(request=data, model="nova-3", **query)


async def test_what_cannot_be_taken_is_a_bad_request(served):
    _, made = served
    with pytest.raises(BadRequestError) as caught:
        await write(made, b"this is no audio")
    assert caught.value.body["err_code"] == "audio"
    with pytest.raises(BadRequestError) as caught:
        await made.listen.v1.media.transcribe_url(url="https://example.com/a.wav", model="nova-3")
    assert "fetched" in caught.value.body["err_msg"]
    with pytest.raises(ApiError) as caught, contextlib.suppress(StopAsyncIteration):
        await talk(made, b"", encoding="opus")
    assert caught.value.status_code == 400


def wav(clip):
    file = io.BytesIO()
    soundfile.write(file, clip.audio, clip.rate, format="WAV", subtype="PCM_16")
    return file.getvalue()


def companded(audio, encoding):
    """G.711, by the nearest of the 256 values of the decoder (ITU-T G.711)."""
    value = Decoder(encoding).push(bytes(range(256)))
    order = np.argsort(value, kind="stable")
    edges = (value[order][1:] + value[order][:-1]) / 2
    return order[np.searchsorted(edges, audio)].astype(np.uint8).tobytes()

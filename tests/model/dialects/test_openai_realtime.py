"""Live audio through the `openai` package, unmodified, against the real server."""

from __future__ import annotations

import asyncio
import base64

import jiwer
import numpy as np
import openai
import pytest
import soxr
from whisper_normalizer.english import EnglishTextNormalizer

CLIPS = ["1088-134315-0002", "1088-134315-0003", "163-122947-0006", "4640-19188-0003"]
TRANSCRIPTION = "conversation.item.input_audio_transcription"


@pytest.fixture
async def served(house):
    """A server and a client of it."""
    server = await house()
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        yield server, client


def pcm24(clip):
    """A clip at 24 kHz, and a second and a half of silence that ends its last turn."""
    audio = np.clip(soxr.resample(clip.audio, clip.rate, 24000), -1, 1)
    return np.rint(np.pad(audio, (0, 36000)) * 32767).astype("<i2").tobytes()


async def talk(client, pcm, *, pace=0.0, detection=None, commit=False, **heard):
    """Everything that a client is told, up to the transcript of the last turn."""
    if detection is not None or commit:
        heard["turn_detection"] = detection
    events = []
    async with client.realtime.connect(
        model="gpt-4o-transcribe", extra_query={"intent": "transcription"}
    ) as socket:
        events.append(await socket.recv())
        session = {"type": "transcription", "audio": {"input": heard}}
        await socket.session.update(session=session)
        events.append(await socket.recv())

        async def send():
            for first in range(0, len(pcm), 4800):
                piece = base64.b64encode(pcm[first : first + 4800]).decode()
                await socket.input_audio_buffer.append(audio=piece)
                await asyncio.sleep(0.1 * pace)
            await socket.input_audio_buffer.commit()
            await socket.input_audio_buffer.clear()  # its answer follows that to the commit

        sending = asyncio.create_task(send())
        while events[-1].type != "input_audio_buffer.cleared":
            events.append(await asyncio.wait_for(socket.recv(), 60))
            assert events[-1].type != "error", events[-1]
        await sending
    return events


def text(events):
    done = [event.transcript for event in events if event.type == f"{TRANSCRIPTION}.completed"]
    return " ".join(part for part in done if part)


def check(events):
    """Deltas joined are what is completed; items follow each other."""
    deltas, done, before = {}, set(), None
    for event in events:
        if event.type == f"{TRANSCRIPTION}.delta":
            assert event.item_id not in done
            deltas[event.item_id] = deltas.get(event.item_id, "") + event.delta
        elif event.type == f"{TRANSCRIPTION}.completed":
            assert event.transcript == deltas.get(event.item_id, "")
            done.add(event.item_id)
        elif event.type == "input_audio_buffer.committed":
            assert event.previous_item_id == before
            before = event.item_id
    assert set(deltas) <= done


def conflicts(server):
    return server.metrics.value("edge_runtime_stable_conflicts_total")


async def test_texts_are_those_of_the_native_protocol(served, read, clip, clips):
    """Word for word, unless a text contradicted words that were told; and 24 kHz costs none."""
    server, client = served
    normal = EnglishTextNormalizer()
    wanted, at_16, at_24, alike = [], [], [], 0
    for speech in map(clip, clips):
        if speech.audio.ndim > 1:
            continue
        pcm = pcm24(speech)
        native = read.text(await server.say(pcm, sample_rate=24000, partials=False))
        before = conflicts(server)
        events = await talk(client, pcm)
        check(events)
        wanted.append(normal(speech.transcript))
        at_16.append(normal(read.text(await server.say(speech.pcm, partials=False))))
        at_24.append(normal(text(events)))
        if conflicts(server) == before:
            assert text(events) == native
            alike += 1
    assert alike >= len(clips) * 3 // 4
    errors = [100 * jiwer.wer(wanted, each) for each in (at_24, at_16)]
    print(f"word errors: {errors[0]:.2f} % at 24 kHz, {errors[1]:.2f} % natively")  # noqa: T201
    assert errors[0] <= errors[1] + 0.3


async def test_paced_like_a_microphone_words_come_while_they_are_spoken(served, clip):
    _, client = served
    events = await talk(client, pcm24(clip(CLIPS[0])), pace=1.0)
    check(events)
    kinds = [event.type for event in events]
    assert kinds[:3] == ["session.created", "session.updated", "input_audio_buffer.speech_started"]
    first = kinds.index(f"{TRANSCRIPTION}.delta")
    assert first < kinds.index("input_audio_buffer.speech_stopped")
    stop = kinds.index("input_audio_buffer.speech_stopped")
    assert kinds[stop : stop + 5] == [
        "input_audio_buffer.speech_stopped", "input_audio_buffer.committed",
        "conversation.item.added", "conversation.item.done", f"{TRANSCRIPTION}.completed",
    ]  # fmt: skip
    assert events[2].item_id == events[stop].item_id


async def test_sessions_side_by_side_do_not_hear_each_other(served, clip):
    _, client = served
    clips = [pcm24(clip(name)) for name in CLIPS]
    alone = [text(await talk(client, pcm)) for pcm in clips]
    together = await asyncio.gather(*(talk(client, pcm) for pcm in clips))
    for events in together:
        check(events)
    words = [(len(text(a).split()), len(b.split())) for a, b in zip(together, alone, strict=True)]
    assert all(abs(a - b) <= 2 for a, b in words)
    assert len(set(alone)) == len(CLIPS)


async def test_only_commits_end_a_turn(served, clip):
    _, client = served
    events = await talk(client, pcm24(clip(CLIPS[0])), commit=True)
    check(events)
    kinds = [event.type for event in events]
    assert "input_audio_buffer.speech_started" not in kinds
    assert kinds.count(f"{TRANSCRIPTION}.completed") == 1
    assert text(events)


@pytest.mark.parametrize("form", ["audio/pcmu", "audio/pcma"])
async def test_telephone_audio(served, clip, form):
    _, client = served
    speech = clip(CLIPS[0])
    audio = np.pad(np.clip(soxr.resample(speech.audio, speech.rate, 8000), -1, 1), (0, 12000))
    events = await talk(client, companded(audio, form), format={"type": form})
    normal = EnglishTextNormalizer()
    assert jiwer.wer(normal(speech.transcript), normal(text(events))) <= 0.2


async def test_the_beta_of_the_client(served, clip):
    server, client = served
    client = client.with_options(websocket_base_url=server.url.replace("http", "ws") + "/v1")
    kinds = []
    async with client.beta.realtime.connect(
        model="whisper-1", extra_query={"intent": "transcription"}
    ) as socket:
        await socket.send(
            {
                "type": "transcription_session.update",
                "session": {
                    "input_audio_format": "pcm16",
                    "input_audio_transcription": {"model": "whisper-1", "language": "en"},
                },
            }
        )
        pcm = pcm24(clip(CLIPS[0]))
        await socket.input_audio_buffer.append(audio=base64.b64encode(pcm[:400_000]).decode())
        await socket.input_audio_buffer.commit()
        while f"{TRANSCRIPTION}.completed" not in kinds:
            kinds.append((await asyncio.wait_for(socket.recv(), 60)).type)
    assert kinds[0] == "transcription_session.created"
    assert "transcription_session.updated" in kinds
    assert "conversation.item.created" in kinds


def companded(audio, form):
    """G.711, by the nearest of the 256 values of the decoder (ITU-T G.711)."""
    from edge_runtime.audio.codec import Decoder

    decoder = Decoder("mulaw" if form == "audio/pcmu" else "alaw")
    value = decoder.push(bytes(range(256)))
    order = np.argsort(value, kind="stable")
    edges = (value[order][1:] + value[order][:-1]) / 2
    return order[np.searchsorted(edges, audio)].astype(np.uint8).tobytes()

"""The `wyoming` package's client, unmodified, against the real server."""

from __future__ import annotations

import asyncio
import socket

import pytest

pytest.importorskip("wyoming", reason="no wyoming: pip install wyoming")

from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong

SHORT = 2  # utterances on each connection


@pytest.fixture
async def served(house):
    """A server, and the port of this protocol."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return await house(dialects={"wyoming_port": port}), port


async def chunks(client, pcm, rate=16000, size=2048):
    form = {"rate": rate, "width": 2, "channels": 1}
    for first in range(0, len(pcm), size):
        await client.write_event(AudioChunk(audio=pcm[first : first + size], **form).event())


async def say(client, pcm, rate=16000):
    """One utterance, as Home Assistant sends it."""
    await client.write_event(Transcribe(language="en").event())
    await client.write_event(AudioStart(rate=rate, width=2, channels=1).event())
    await chunks(client, pcm, rate)
    await client.write_event(AudioStop().event())


async def answer(client):
    """Every event of a transcript; its chunks must be it, and all in order."""
    events = [await asyncio.wait_for(client.read_event(), 60)]
    while not TranscriptStop.is_type(events[-1].type):
        events.append(await asyncio.wait_for(client.read_event(), 60))
    first, *pieces, whole, _ = events
    assert TranscriptStart.from_event(first).language == "en"
    assert all(TranscriptChunk.is_type(each.type) for each in pieces)
    text = Transcript.from_event(whole).text
    assert "".join(TranscriptChunk.from_event(each).text for each in pieces) == text
    return text


async def dictated(port, pcms, rates):
    """Their texts, on one connection."""
    texts = []
    async with AsyncTcpClient("127.0.0.1", port) as client:
        for pcm, rate in zip(pcms, rates, strict=True):
            sending = asyncio.create_task(say(client, pcm, rate))
            texts.append(await answer(client))
            await sending
    return texts


async def test_texts_are_those_of_the_native_protocol(served, read, clip, clips):
    """Word for word, but where a text contradicted words that were told."""
    server, port = served
    spoken = [clip(name) for name in clips]
    pairs = [spoken[first : first + SHORT] for first in range(0, len(spoken), SHORT)]
    said = await asyncio.gather(  # several at once
        *(dictated(port, [c.pcm for c in pair], [c.rate for c in pair]) for pair in pairs)
    )
    texts = [text for each in said for text in each]
    conflicts = server.metrics.value("edge_runtime_stable_conflicts_total")
    native = await asyncio.gather(
        *(server.say(c.pcm, sample_rate=c.rate, partials=False) for c in spoken)
    )
    other = [
        (ours, read.text(theirs))
        for ours, theirs in zip(texts, native, strict=True)
        if ours != read.text(theirs)
    ]
    value = server.metrics.value
    mean = value("edge_runtime_dialect_emit_seconds_sum", dialect="wyoming") / value(
        "edge_runtime_dialect_emit_seconds_count", dialect="wyoming"
    )
    print(f"{len(other)} of {len(texts)} differ, {conflicts:g} conflicts, {1000 * mean:.3f} ms")  # noqa: T201
    assert len([text for text in texts if text]) >= len(texts) - 1, texts
    assert len(other) <= conflicts, other
    assert value("edge_runtime_dialect_sessions_total", dialect="wyoming") == len(texts)


async def test_the_flow_of_home_assistant(served, read, clip, clips):
    """It asks what is there; each utterance has a connection, and waits for its transcript."""
    server, port = served
    async with AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(Describe().event())
        (program,) = Info.from_event(await client.read_event()).asr
        assert program.installed
        assert program.supports_transcript_streaming
        assert [(m.name, m.languages, m.installed) for m in program.models] == [
            ("moonshine-tiny-en", ["en"], True)
        ]
        await client.write_event(Ping(text="there?").event())
        assert Pong.from_event(await client.read_event()).text == "there?"

    async def transcribe(pcm):
        async with AsyncTcpClient("127.0.0.1", port) as client:
            await say(client, pcm)
            while True:
                event = await asyncio.wait_for(client.read_event(), 60)
                assert event is not None, "the connection was lost"
                if Transcript.is_type(event.type):
                    return Transcript.from_event(event).text

    speech = clip(clips[0])
    assert await transcribe(speech.pcm) == read.text(await server.say(speech.pcm, partials=False))
    assert await transcribe(bytes(32000)) == ""
    assert await transcribe(b"") == ""


async def test_a_pause_ends_no_utterance_and_words_come_before_its_end(served, read, clip, clips):
    server, port = served
    one, two = (clip(name).pcm for name in clips[1:3])
    pause = bytes(32000)
    async with AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(AudioStart(rate=16000, width=2, channels=1).event())
        await chunks(client, one + pause)
        early = [await asyncio.wait_for(client.read_event(), 60) for _ in range(2)]
        assert [each.type for each in early] == ["transcript-start", "transcript-chunk"]
        await chunks(client, two)
        await client.write_event(AudioStop().event())
        text = ""
        while not text:
            event = await asyncio.wait_for(client.read_event(), 60)
            text = Transcript.from_event(event).text if Transcript.is_type(event.type) else ""
    events = await server.say(one + pause + two, partials=False)
    assert len([event for event in events if event["type"] == "final"]) >= 2
    assert text == read.text(events)

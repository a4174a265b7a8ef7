"""Recordings through the `openai` package, unmodified, against the real server."""

from __future__ import annotations

import asyncio

import openai
import pytest

from edge_runtime.cli.output import render
from edge_runtime.subtitles import cues, srt, vtt

CLIP = "1088-134315-0002"


@pytest.fixture
async def served(house):
    """A server and a client of it."""
    server = await house()
    async with openai.AsyncOpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0
    ) as client:
        yield server, client


def write(client, data, **fields):
    return client.audio.transcriptions.create(model="whisper-1", file=("a.flac", data), **fields)


async def test_texts_are_those_of_transcribe(served, clip, clips, flac, transcribed):
    _, client = served
    for first in range(0, len(clips), 4):  # several at once
        files = [flac(clip(name)) for name in clips[first : first + 4]]
        answers = await asyncio.gather(*(write(client, data) for data in files))
        assert [answer.text for answer in answers] == [transcribed(data).text for data in files]
        assert all(answer.text for answer in answers)


async def test_every_format(served, clip, flac, transcribed):
    _, client = served
    data = flac(clip(CLIP))
    plain, worded = transcribed(data), transcribed(data, words=True)
    assert (await write(client, data, response_format="text")).strip() == plain.text
    assert await write(client, data, response_format="srt") == srt(cues(worded.spoken))
    assert await write(client, data, response_format="vtt") == vtt(cues(worded.spoken))
    assert render(worded, "srt") == srt(cues(worded.spoken))
    said = await write(
        client, data, response_format="verbose_json",
        timestamp_granularities=["word", "segment"], language="en", temperature=0, prompt="x",
    )  # fmt: skip
    assert said.text == plain.text
    assert said.duration == worded.seconds
    assert said.language == "english"
    assert [segment.text for segment in said.segments] == [f.text.strip() for f in worded.spoken]
    words = [word for final in worded.spoken for word in final.words]
    assert [(each.word, each.start, each.end) for each in said.words] == [
        (word.text.strip(), word.start, word.end) for word in words
    ]


async def test_a_stream_of_deltas_is_the_text(served, clip, flac, transcribed):
    _, client = served
    data = flac(clip(CLIP))
    events = [event async for event in await write(client, data, stream=True)]
    assert [event.type for event in events[-1:]] == ["transcript.text.done"]
    deltas = [event.delta for event in events[:-1]]
    assert "".join(deltas) == events[-1].text == transcribed(data).text


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # of translations
async def test_what_is_no_recording_is_a_bad_request(served):
    _, client = served
    for data in (b"", b"this is no audio"):
        with pytest.raises(openai.BadRequestError) as caught:
            await write(client, data)
        assert caught.value.code == "audio"
    with pytest.raises(openai.BadRequestError) as caught:
        await write(client, b"x", language="fr")
    assert caught.value.param == "language"
    with pytest.raises(openai.BadRequestError, match="moonshine-tiny-en does not translate") as no:
        await client.audio.translations.create(model="whisper-1", file=("a.flac", b"x"))
    assert no.value.param == "model"


async def test_a_full_server_is_asked_again_by_the_client_itself(house, read, clip, flac):
    server = await house(max_sessions=1)
    native = await server.connect({})
    await read.until(native, "ready")
    data = flac(clip(CLIP))
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x") as client:
        with pytest.raises(openai.InternalServerError) as caught:
            await write(client.with_options(max_retries=0), data)
        assert caught.value.status_code == 503
        assert caught.value.code == "full"
        again = asyncio.create_task(write(client.with_options(max_retries=2), data))
        await asyncio.sleep(0.1)
        await native.send_json({"type": "stop"})
        await read.rest(native)
        assert (await again).text


async def test_the_model_is_listed(served):
    _, client = served
    assert [model.id async for model in await client.models.list()] == ["moonshine-tiny-en"]
    assert (await client.models.retrieve("moonshine-tiny-en")).id == "moonshine-tiny-en"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("gpt-4o")


async def test_a_recording_beside_somebody_who_speaks(served, read, clip, flac):
    """Both get all their text, and the speaker's captions go on meanwhile."""
    server, client = served
    speech = clip(CLIP)
    alone = read.text(await server.say(speech.pcm, partials=False))
    events, *answers = await asyncio.gather(
        server.say(speech.pcm, pace=0.7), *(write(client, flac(speech)) for _ in range(3))
    )
    read.check(events)
    assert "partial" in {event["type"] for event in events}
    assert len({answer.text for answer in answers}) == 1
    assert abs(len(read.text(events).split()) - len(alone.split())) <= 2

"""Recordings posted whole, with a stand-in for the model."""

from __future__ import annotations

import asyncio
import io
import json
from collections import Counter

import aiohttp
import numpy as np
import openai
import pytest
import soundfile

from edge_runtime.server import Limits
from tests.waiting import until

PATH = "/v1/audio/transcriptions"


def recording(samples=1600, kind="WAV", rate=16000, channels=1):
    """So many samples that all count as speech."""
    file = io.BytesIO()
    sound = np.full((samples, channels), 0.25, np.float32)
    soundfile.write(file, sound, rate, format=kind)
    return file.getvalue()


def form(data=None, **fields):
    made = aiohttp.FormData(default_to_multipart=True)
    made.add_field("model", "whisper-1")
    for name, value in fields.items():
        made.add_field(name, value)
    if data is not None:
        made.add_field("file", data, filename="/etc/talk.wav", content_type="audio/wav")
    return made


async def post(server, data, path=PATH, **options):
    async with server.http.post(server.url + path, data=data, **options) as answer:
        return answer.status, answer.headers, await answer.read()


async def error_of(server, data, **options):
    status, headers, body = await post(server, data, **options)
    return status, json.loads(body)["error"], headers


async def idle(server):
    await until(lambda: not len(server.state.parking) and not server.state.uploads)
    assert len(server.state.parking) == 0
    assert server.state.uploads == 0
    assert server.metrics.value("edge_runtime_sessions_open") == 0


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "AIFF"])
async def test_a_recording_gets_its_text(house, kind):
    server = await house()
    status, headers, body = await post(server, form(recording(1600, kind)))
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(body)["text"] == "1600"
    (stream,) = server.runtime.streams
    options = stream.options
    assert (options.partials, options.speculate, options.live) == (False, False, False)
    await idle(server)
    value = server.metrics.value
    assert value("edge_runtime_dialect_sessions_total", dialect="openai") == 1
    assert value("edge_runtime_dialect_audio_seconds_total", dialect="openai") == 0.1
    assert value("edge_runtime_sessions_total", reason="stop") == 1


async def test_a_large_recording_is_taken_in_pieces(house):
    server = await house(pace=0.001)
    status, _, body = await post(server, form(io.BytesIO(recording(3_000_000))))
    assert status == 200
    assert json.loads(body)["text"] == "3000000"


async def test_a_wav_whose_writer_knew_no_length(house):
    server = await house()
    data = bytearray(recording(1600))
    at = data.index(b"data") + 4
    data[at : at + 4] = b"\xff" * 4
    _, _, body = await post(server, form(bytes(data)))
    assert json.loads(body)["text"] == "1600"


async def test_words_are_asked_of_the_session_when_they_are_wanted(house):
    server = await house()
    await post(server, form(recording(), response_format="srt"))
    await post(server, form(recording(), response_format="text"))
    assert [stream.options.words for stream in server.runtime.streams] == [True, False]


async def test_a_stream_of_events(house):
    server = await house()
    status, headers, body = await post(server, form(recording(), stream="true"))
    assert status == 200
    assert headers["Content-Type"].startswith("text/event-stream")
    said = [json.loads(line[6:]) for line in body.decode().split("\n\n") if line]
    assert [each["type"] for each in said] == ["transcript.text.delta", "transcript.text.done"]
    assert said[0]["delta"] == said[1]["text"] == "1600"


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (form(b""), 400, "audio"),
        (form(b"this is no audio"), 400, "audio"),
        (form(b"RIFF\0\0\0\0WAVE"), 400, "audio"),
        (form(recording(0)), 400, "audio"),
        (form(recording(100, channels=9)), 400, "audio"),
        (form(recording(100, rate=4000)), 400, "audio"),
        (form(), 400, "missing_file"),
        (b"", 400, "bad_form"),
        (form(recording(), response_format="docx"), 400, "invalid_value"),
        (form(recording(), language="fr"), 400, "unsupported_language"),
        (form(recording(40_000)), 413, "too_big"),
        (form(recording(20_000, "FLAC")), 413, "too_long"),
    ],
)
async def test_what_cannot_be_taken_is_answered_in_openais_form(house, data, status, code):
    server = await house(dialects={"max_upload_bytes": 50_000, "max_upload_seconds": 1})
    got, error, _ = await error_of(server, data)
    assert (got, error["code"], error["type"]) == (status, code, "invalid_request_error")
    assert "/" not in error["message"].replace("multipart/form-data", "").replace("talk/", "")
    await idle(server)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"--x\r\n\r\n"),
        ("multipart/form-data; boundary=x", b""),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="file"'),
        ("multipart/form-data; boundary=x",
         b'--x\r\nContent-Type: multipart/mixed; boundary=y\r\n\r\n--y--\r\n--x--\r\n'),
        ("multipart/form-data; boundary=x", b"--x\r\n" + b"A: b\r\n" * 10_000),
        ("application/json", b'{"file":"/etc/passwd"}'),
        ("", b"\0" * 1000),
    ],
)  # fmt: skip
async def test_a_form_that_is_none_is_answered(house, kind, body):
    server = await house()
    status, _, _ = await post(server, body, headers={"Content-Type": kind})
    assert status == 400
    await idle(server)
    status, _, _ = await post(server, form(recording()))
    assert status == 200


@pytest.mark.filterwarnings("ignore::aiohttp.multipart.BadContentDispositionHeader")
@pytest.mark.filterwarnings("ignore::aiohttp.multipart.BadContentDispositionParam")
async def test_damaged_requests_are_answered_and_cost_nobody_else(house, fuzz):
    """Bytes of a good request, changed at random places."""
    server = await house()
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    field = b'\r\n--x\r\nContent-Disposition: form-data; name="response_format"\r\n\r\ntext'
    good = head + recording(200, "FLAC") + field + b"\r\n--x--\r\n"
    found = Counter()
    for number in range(fuzz.frames):
        status, _, body = await post(
            server,
            fuzz.damaged(good, 12),
            headers={"Content-Type": "multipart/form-data; boundary=x"},
        )
        found[status] += 1
        assert status in {200, 400, 413}, body
        server.runtime.streams.clear()
        if number % 1000 == 200:
            fuzz.looked()
    print(dict(found))  # noqa: T201
    await idle(server)
    status, _, body = await post(server, form(recording(300)))
    assert json.loads(body)["text"] == "300"


@pytest.mark.parametrize("why", ["sessions", "runtime", "uploads"])
async def test_a_full_server_says_when_to_come_again(house, read, why):
    server = await {
        "sessions": lambda: house(serving={"max_sessions": 1}),
        "runtime": lambda: house(most=1),
        "uploads": lambda: house(dialects={"max_uploads": 1}, pace=50),
    }[why]()
    if why == "uploads":
        busy = asyncio.create_task(post(server, form(recording())))
        await until(lambda: server.state.uploads)
    else:
        await read.until(await server.connect({}), "ready")
    status, error, headers = await error_of(server, form(recording()))
    assert (status, error["code"], error["type"]) == (503, "full", "server_error")
    assert int(headers["Retry-After"]) > 0
    assert (
        server.metrics.value("edge_runtime_dialect_refused_total", dialect="openai", code="full")
        == 1
    )
    if why == "uploads":
        busy.cancel()
        await asyncio.gather(busy, return_exceptions=True)


async def test_a_client_that_goes_away_frees_its_session(house):
    server = await house(pace=1.0)
    going = asyncio.create_task(post(server, form(recording(160_000))))
    await until(lambda: server.runtime.streams)
    await asyncio.sleep(0.05)
    going.cancel()
    await asyncio.gather(going, return_exceptions=True)
    server.runtime.streams[0]._pace = 0.0
    await idle(server)
    assert server.metrics.value("edge_runtime_sessions_total", reason="vanished") == 1


async def test_a_client_that_goes_away_while_it_sends_is_no_error(house, caplog):
    server = await house()
    port = int(server.url.rsplit(":", 1)[1])
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\n\r\n"
        '--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nRIFF'
    )
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + bytes(5000))
    await until(lambda: server.state.uploads)
    writer.transport.abort()
    await idle(server)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_client_that_sends_nothing_more_is_let_go(house):
    server = await house(limits=Limits(blocked=0.2, linger=0.2))

    async def stall():
        yield b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nRIFF'
        await asyncio.sleep(5)

    status, error, _ = await error_of(
        server, stall(), headers={"Content-Type": "multipart/form-data; boundary=x"}
    )
    assert (status, error["code"]) == (400, "slow_client")
    await idle(server)


@pytest.mark.parametrize("stream", ["false", "true"])
async def test_shutdown_is_told(house, stream):
    server = await house(pace=1.0)
    going = asyncio.create_task(post(server, form(recording(160_000), stream=stream)))
    await until(lambda: server.runtime.streams)
    await asyncio.sleep(0.05)
    server.runtime.streams[0]._pace = 0.0
    server.state.closing = True
    await server.state.parking.finish(2.0)
    status, headers, body = await going
    if stream == "false":
        assert (status, json.loads(body)["error"]["code"]) == (503, "closing")
        assert headers["Retry-After"]
    else:
        assert b"closing" in body.split(b"\n\n")[-2]
    status, error, _ = await error_of(server, form(recording()))
    assert (status, error["code"]) == (503, "not_ready")


async def test_models_are_listed(house):
    server = await house()
    async with server.http.get(server.url + "/v1/models") as answer:
        (model,) = (await answer.json())["data"]
    assert (model["id"], model["object"]) == ("stand-in", "model")
    async with server.http.get(server.url + "/v1/models/stand-in") as answer:
        assert await answer.json() == model
    async with server.http.get(server.url + "/v1/models/gpt-4o") as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (404, "model_not_found")


@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # the client's word for it
async def test_translations_are_of_a_model_that_translates(house):
    async def translated(server):
        async with openai.AsyncOpenAI(
            base_url=f"{server.url}/v1", api_key="x", max_retries=0
        ) as client:
            file = ("a.wav", recording())
            return (await client.audio.translations.create(model="whisper-1", file=file)).text

    with pytest.raises(openai.BadRequestError, match="stand-in does not translate") as caught:
        await translated(await house())
    assert caught.value.param == "model"
    server = await house(others={"large": ("de", "en")})
    assert await translated(server) == "1600"
    (stream,) = server.runtime.models["large"].streams
    assert stream.options.task == "translate"


async def test_a_dialect_that_is_switched_off_is_not_there(house):
    server = await house(dialects={"openai": False})
    for path in (PATH, "/v1/models", "/v1/realtime"):
        status, _, _ = await post(server, form(recording()), path)
        assert status == 404

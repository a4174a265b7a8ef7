"""Keys as the `openai` package sends them, with a stand-in for the model."""

from __future__ import annotations

import base64
import io

import numpy as np
import openai
import pytest
import soundfile
from websockets.exceptions import InvalidStatus

from edge_runtime.server.keys import Keys

FILE = io.BytesIO()
soundfile.write(FILE, np.full(1600, 0.25, np.float32), 16000, format="WAV")


@pytest.fixture
async def keyed(house, tmp_path):
    """A server with a key, that key, and `client(key)`."""
    path = tmp_path / "keys.json"
    key = Keys(path).add("kiosk")
    server = await house(admitting={"keys_file": str(path)})
    clients = []

    def client(key):
        clients.append(openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0))
        return clients[-1]

    yield key, client
    for each in clients:
        await each.close()


def write(client):
    return client.audio.transcriptions.create(model="x", file=("a.wav", FILE.getvalue()))


async def test_a_key_lets_in(keyed):
    key, client = keyed
    assert (await write(client(key))).text == "1600"
    assert [model.id async for model in await client(key).models.list()] == ["stand-in"]
    async with client(key).realtime.connect(extra_query={"intent": "transcription"}) as socket:
        assert (await socket.recv()).type == "session.created"
        audio = base64.b64encode(np.full(2400, 9000, "<i2").tobytes()).decode()
        await socket.input_audio_buffer.append(audio=audio)
        await socket.input_audio_buffer.commit()
        event = None
        while event is None or not event.type.endswith("transcription.completed"):
            event = await socket.recv()
        assert event.transcript


async def test_another_key_is_an_authentication_error(keyed):
    _, client = keyed
    stranger = client("er_none")
    with pytest.raises(openai.AuthenticationError) as caught:
        await write(stranger)
    assert caught.value.code == "key_unknown"
    with pytest.raises(openai.AuthenticationError):
        await stranger.models.list()
    with pytest.raises(InvalidStatus) as refused:
        async with stranger.realtime.connect(model="x"):
            pass
    assert refused.value.response.status_code == 401

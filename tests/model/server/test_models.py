"""Two families of models in one server: one comes while the other is heard, and goes again."""

from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

from edge_runtime.config import Admitting, Config, Serving
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.runtime.models import Models
from edge_runtime.server import Limits

FIRST, SECOND = "moonshine-tiny-en", "whisper-tiny-en"
SAID = "I can show you the tracks."


@pytest.fixture
async def house(host):
    store = Store()
    for name in (FIRST, SECOND):
        try:
            store.graphs(load_recipe(name))
        except EdgeRuntimeError as error:
            pytest.skip(str(error))
    config = Config(
        serving=Serving(port=0, model=FIRST, device="cpu"), admitting=Admitting(keys="never")
    )
    return await host(config, lambda metrics: Models(config, store, metrics), Limits(linger=2.0))


def heard(events) -> list:
    """Without what names the session."""
    return [event for event in events if event["type"] != "ready"]


async def test_whisper_comes_while_moonshine_is_heard_and_neither_disturbs_the_other(
    house, spoken
) -> None:
    pcm = np.rint(spoken("1867-154075-0005") * 32767).astype("<i2").tobytes()
    start = {"partials": False, "words": True}
    alone = heard(await house.say(pcm, **start))
    assert alone[-3]["text"] == SAID
    socket = await house.connect(start)
    half = len(pcm) // 4 * 2
    await socket.send_bytes(pcm[:half])

    async def load() -> int:
        async with house.http.post(f"{house.url}/admin/models/{SECOND}") as answer:
            return answer.status

    loading = asyncio.create_task(load())
    beside = heard(await house.say(pcm, **start))
    assert await loading == 200
    await socket.send_bytes(pcm[half:])
    await socket.send_json({"type": "stop"})
    assert heard([json.loads(message.data) async for message in socket]) == beside == alone

    both = await asyncio.gather(house.say(pcm, **start), house.say(pcm, **start, model=SECOND))
    assert [events[0]["model"] for events in both] == [FIRST, SECOND]
    assert heard(both[0]) == alone
    assert both[1][-3]["text"] == SAID
    async with house.http.delete(f"{house.url}/admin/models/{SECOND}") as answer:
        told = await answer.json()
    assert [each["model"] for each in told["models"]] == [FIRST]
    assert heard(await house.say(pcm, **start)) == alone

"""A server from its port to its end."""

from __future__ import annotations

import asyncio
import socket
import threading

import aiohttp
import pytest

from edge_runtime import __version__
from edge_runtime.config import Config, Serving
from edge_runtime.errors import ConfigError, ModelMissing, PortTaken
from edge_runtime.metrics import Metrics
from edge_runtime.server import Limits, create_app, hosting
from edge_runtime.server.address import is_local, listen, url


def config(**serving):
    return Config(serving=Serving(**{"port": 0, **serving}))


async def get(server, path):
    async with server.http.get(server.url + path) as answer:
        return answer.status, answer.headers, await answer.read()


async def test_healthz_tells_what_runs(house, read):
    server = await house(serving={"max_sessions": 7})
    await read.until(await server.connect({}), "ready")
    async with server.http.get(server.url + "/healthz") as answer:
        health = await answer.json()
    assert health.pop("uptime") >= 0
    assert health == {
        "status": "ok",
        "version": __version__,
        "model": "stand-in",
        "device": "paper",
        "fallback": None,
        "lost": None,
        "sessions": {"open": 1, "parked": 0, "max": 7},
        "store": None,
        "energy_per_audio_hour": None,
    }


async def test_a_server_on_another_device_says_why_and_is_ready(house):
    server = await house()
    server.runtime.fallback = "cpu is used. tensorrt: no engine was built"
    async with server.http.get(server.url + "/healthz") as answer:
        health = await answer.json()
    assert (health["status"], health["fallback"]) == ("ok", server.runtime.fallback)
    assert (await get(server, "/readyz"))[0] == 200


async def test_a_server_without_a_device_is_not_ready(house):
    """So that what watches over it starts it again."""
    server = await house()
    server.runtime.lost = "the GPU fell off the bus. Restart edge-runtime."
    async with server.http.get(server.url + "/healthz") as answer:
        health = await answer.json()
    assert (health["status"], health["lost"]) == ("lost", server.runtime.lost)
    status, headers, _ = await get(server, "/readyz")
    assert status == 503
    assert "Retry-After" in headers


async def test_metrics_are_prometheus_text(house, read, speech):
    server = await house()
    client = await server.connect({})
    await client.send_bytes(speech(16000))
    await client.send_json({"type": "stop"})
    await read.rest(client)
    status, headers, body = await get(server, "/metrics")
    lines = body.decode().splitlines()
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain")
    assert "edge_runtime_audio_seconds_total 1.0" in lines
    assert 'edge_runtime_sessions_total{reason="stop"} 1.0' in lines
    assert 'edge_runtime_stage_seconds_count{purpose="final",stage="emit"} 1.0' in lines


async def test_ready_only_when_the_model_is_there(house):
    """While it loads, the port answers: not ready, and clients are asked to come back."""
    going = threading.Event()
    app = create_app(config(), Metrics(), Limits(linger=0.5))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    app = create_app(config(port=port), Metrics(), Limits(linger=0.5))
    server = await house()  # for its runtime and client

    def load():
        assert going.wait(10)
        return server.runtime

    async def host():
        async with hosting(app, load) as (where, _):
            return where, await get_status(where)

    async def get_status(where):
        async with server.http.get(f"{where}/readyz") as answer:
            return answer.status, (await answer.json())["status"]

    hosted = asyncio.create_task(host())
    where = f"http://127.0.0.1:{port}"
    for _ in range(100):
        try:
            status = await get_status(where)
            break
        except aiohttp.ClientError:
            await asyncio.sleep(0.02)
    assert status == (503, "loading")
    client = await server.http.ws_connect(f"{where}/v1/stream")
    await client.send_json({"type": "start"})
    assert (await client.receive_json())["code"] == "not_ready"
    assert (await client.receive()).data == 1013
    going.set()
    assert await hosted == (where, (200, "ok"))


async def test_a_taken_port_is_named_before_the_model_is_loaded(house):
    server = await house()
    port = int(server.url.rsplit(":", 1)[1])
    with pytest.raises(PortTaken, match=f"port {port} of 127.0.0.1 is taken") as caught:
        async with hosting(create_app(config(port=port), Metrics()), pytest.fail):
            pass
    assert "--port" in caught.value.fix


async def test_a_model_that_is_missing_frees_the_port():
    def load():
        raise ModelMissing("no model", "Run: edge-runtime pull")

    app = create_app(config(), Metrics())
    with pytest.raises(ModelMissing):
        async with hosting(app, load):
            pass
    with pytest.raises(aiohttp.ClientError):
        async with aiohttp.ClientSession() as http:
            await http.get(f"http://127.0.0.1:{config().serving.port or 1}/healthz")


async def test_at_the_end_everything_said_is_written_and_the_port_is_free(house, read, speech):
    server = await house()  # for its runtime and client
    leave = asyncio.Event()
    where = asyncio.get_running_loop().create_future()

    async def host():
        app = create_app(config(), Metrics(), Limits(linger=0.5, grace=2.0))
        async with hosting(app, lambda: server.runtime) as (url, _):
            where.set_result(url)
            await leave.wait()

    hosted = asyncio.create_task(host())
    server.url = await where
    client = await server.connect({"partials": False})
    await client.send_bytes(speech(1600))
    await read.until(client, "speech_start")
    leave.set()
    events, code = await read.rest(client)
    await hosted
    assert [event["type"] for event in events] == ["final", "speech_end", "closed"]
    assert (events[-1]["reason"], code) == ("shutdown", 1001)
    with pytest.raises(aiohttp.ClientError):
        await server.connect({})


@pytest.mark.parametrize(
    ("host", "port"), [("no.such.host.invalid", 0), ("192.0.2.1", 0), ("", 70000)]
)
def test_an_address_that_cannot_be_used(host, port):
    with pytest.raises((ConfigError, OverflowError)):
        listen(host, port)


def test_all_addresses_of_a_name_share_the_port():
    sockets = listen("localhost", 0)
    try:
        assert len({entry.getsockname()[1] for entry in sockets}) == 1
        assert url(sockets).startswith("http://")
    finally:
        for entry in sockets:
            entry.close()


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True),
        ("0.0.0.0", False), ("::", False), ("192.168.1.4", False), ("kiosk.local", False),
    ],
)  # fmt: skip
def test_what_only_this_machine_reaches(host, local):
    assert is_local(host) is local

"""Models that come and go while a server serves others, on real sockets."""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import threading
import weakref

import numpy as np
import pytest
from typer.testing import CliRunner

from edge_runtime.cli import app
from edge_runtime.config import Computing, Config, Guarding, Serving
from edge_runtime.engines import recipe as recipes
from edge_runtime.errors import ConfigError, MemoryShort
from edge_runtime.metrics import Metrics
from edge_runtime.runtime.models import Models, memory
from edge_runtime.server import Limits
from edge_runtime.server.keys import Keys, default_path
from tests.waiting import until

BELIEVED = Guarding(tokens_per_second=100, compression=100, mean_logprob=-100)
ONE, OTHER = "made-up", "made-up-too"

pytestmark = pytest.mark.usefixtures("loud_is_speech", "named_twice")


@pytest.fixture
def named_twice(made_up_path, made_up_store, tmp_path, monkeypatch) -> None:
    """The made-up model by two names, in the store and among the recipes."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    text = made_up_path.read_text()
    (folder / f"{ONE}.toml").write_text(text)
    (folder / f"{OTHER}.toml").write_text(text.replace(f'"{ONE}"', f'"{OTHER}"', 1))
    shutil.copytree(made_up_store.root / ONE, made_up_store.root / OTHER)
    monkeypatch.setattr(recipes, "recipes_folder", lambda: folder)


@pytest.fixture
def settings():
    def made(*models: str) -> Config:
        return Config(
            serving=Serving(port=0, model=models[0], models=models, device="cpu"),
            computing=Computing(lanes=2),
            guarding=BELIEVED,
        )

    return made


@pytest.fixture
def house(host, settings, made_up_store):
    """A server of these models: `await house("made-up", …)`."""

    async def start(*models: str):
        config = settings(*models)
        limits = Limits(linger=0.5, grace=5.0)
        return await host(config, lambda metrics: Models(config, made_up_store, metrics), limits)

    return start


@pytest.fixture
def turn() -> bytes:
    """Noise, and silence after it."""
    noise = np.random.default_rng(4).normal(0, 8000, 16_000).clip(-32000, 32000)
    return np.append(noise, np.zeros(12_000)).astype("<i2").tobytes()


async def ask(server, method: str, path: str = "", **more):
    async with server.http.request(method, f"{server.url}/admin/models{path}", **more) as answer:
        return answer.status, await answer.json()


def heard(events) -> list:
    """Without what names the session."""
    return [event for event in events if event["type"] != "ready"]


async def test_each_session_gets_the_model_it_names_and_all_are_told(house, turn) -> None:
    server = await house(ONE, OTHER)
    for start, model in (({}, ONE), ({"model": OTHER}, OTHER), ({"model": ONE}, ONE)):
        ready, *_ = await server.say(turn, **start)
        assert ready["model"] == model
    async with server.http.get(server.url + "/healthz") as answer:
        told = await answer.json()
    assert told["model"] == ONE
    assert [(each["model"], each["default"]) for each in told["models"]] == [
        (ONE, True),
        (OTHER, False),
    ]
    assert told["loading"] is None
    value = server.metrics.value
    assert value("edge_runtime_model_sessions_total", model=ONE) == 2
    assert value("edge_runtime_model_sessions_total", model=OTHER) == 1
    assert value("edge_runtime_model_sessions_open", model=OTHER) == 0
    assert value("edge_runtime_model_update_seconds_count", model=OTHER) > 0
    status, said = await ask(server, "GET")
    assert (status, said["models"]) == (200, told["models"])


async def test_a_model_is_loaded_while_another_is_heard_and_nothing_of_that_differs(
    house, turn
) -> None:
    server = await house(ONE)
    alone = heard(await server.say(2 * turn, partials=False, words=True))
    assert [event["type"] for event in alone].count("final") == 2
    socket = await server.connect({"partials": False, "words": True})
    await socket.send_bytes(turn)
    loading = asyncio.create_task(ask(server, "POST", f"/{OTHER}"))
    await until(lambda: server.runtime.about["loading"] == OTHER)
    await socket.send_bytes(turn)
    beside = heard(await server.say(2 * turn, partials=False, words=True))
    status, said = await loading
    assert (status, [each["model"] for each in said["models"]]) == (200, [ONE, OTHER])
    await socket.send_json({"type": "stop"})
    events = [json.loads(message.data) async for message in socket]
    assert heard(events) == beside == alone
    ready, *rest = await server.say(2 * turn, partials=False, words=True, model=OTHER)
    assert ready["model"] == OTHER
    assert rest == alone, "the same weights by another name"


async def test_an_unloaded_model_serves_its_sessions_to_their_end(house, turn, read) -> None:
    server = await house(ONE, OTHER)
    before = lanes()
    socket = await server.connect({"model": OTHER})
    await socket.send_bytes(turn)
    await read.until(socket, "speech_end")
    runtime = server.runtime.models[OTHER]
    chain = weakref.ref(runtime.loaded.chain)
    leaving = [asyncio.create_task(ask(server, "DELETE", f"/{OTHER}")) for _ in range(2)]
    await until(lambda: OTHER not in server.runtime.models)
    _, said = await ask(server, "GET")
    assert [each["state"] for each in said["models"]] == ["serving", "unloading"]
    late = await server.connect({"model": OTHER})
    (error,), _ = await read.rest(late)
    assert error["code"] == "unknown_model"
    assert ONE in error["fix"]
    status, said = await ask(server, "POST", f"/{OTHER}")
    assert status == 409
    assert "waits for its last sessions" in said["message"]
    assert not any(task.done() for task in leaving)
    await socket.send_bytes(turn)
    await socket.send_json({"type": "stop"})
    events, _ = await read.rest(socket)
    assert [event["type"] for event in events].count("final") == 1
    for task in leaving:
        status, said = await task
        assert (status, [each["model"] for each in said["models"]]) == (200, [ONE])
    del runtime
    gc.collect()
    assert chain() is None
    assert lanes() == before - 2
    forms = server.metrics.text().decode().count("edge_runtime_model_info{")
    assert forms == 1
    assert (await ask(server, "POST", f"/{OTHER}"))[0] == 200, "and it may come back"


def lanes() -> int:
    return sum(thread.name.startswith("lane-") for thread in threading.enumerate())


async def test_the_default_is_handed_over_before_it_may_go(house, turn) -> None:
    server = await house(ONE)
    status, said = await ask(server, "DELETE", f"/{ONE}")
    assert status == 409
    assert "models load OTHER --default" in said["fix"]
    status, said = await ask(server, "POST", f"/{OTHER}?default=true")
    assert (status, server.runtime.model) == (200, OTHER)
    assert [each["model"] for each in said["models"] if each["default"]] == [OTHER]
    assert (await ask(server, "DELETE", f"/{ONE}"))[0] == 200
    ready, *_ = await server.say(turn)
    assert ready["model"] == OTHER
    async with server.http.get(server.url + "/v1/models") as answer:
        assert [each["id"] for each in (await answer.json())["data"]] == [OTHER]


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("POST", f"/{ONE}", 409, "served already"),
        ("POST", "/made-uq", 404, "Did you mean made-up"),
        ("POST", "/%2Fetc%2Fx.toml", 404, "no name of a model"),
        ("POST", "/x.toml", 404, "no name of a model"),
        ("DELETE", f"/{OTHER}", 409, "is not served"),
    ],
)
async def test_what_cannot_be_is_said_with_its_fix(house, method, path, status, said) -> None:
    server = await house(ONE)
    got, error = await ask(server, method, path)
    assert got == status
    assert said in f"{error['message']} {error['fix']}"
    assert list(server.runtime.models) == [ONE]


async def test_a_model_that_was_never_pulled_names_the_command(house, made_up_store) -> None:
    shutil.rmtree(made_up_store.root / OTHER)
    server = await house(ONE)
    status, error = await ask(server, "POST", f"/{OTHER}")
    assert (status, error["code"]) == (404, "model_missing")
    assert error["fix"] == f"Run: edge-runtime pull {OTHER}"


async def test_without_memory_it_is_refused_and_all_goes_on(house, turn, monkeypatch) -> None:
    server = await house(ONE)
    monkeypatch.setattr(memory, "available", lambda: 50_000_000)
    status, error = await ask(server, "POST", f"/{OTHER}")
    assert (status, error["code"]) == (507, "memory_short")
    assert "needs about 420 MB of memory, and 50 MB are free" in error["message"]
    assert "models unload" in error["fix"]
    assert len(heard(await server.say(turn))) > 2
    assert server.runtime.about["loading"] is None


def test_a_server_does_not_start_with_more_than_there_is_memory_for(
    settings, made_up_store, monkeypatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda: 50_000_000)
    Models(settings(ONE), made_up_store, Metrics())
    with pytest.raises(MemoryShort, match=OTHER):
        Models(settings(ONE, OTHER), made_up_store, Metrics())


def test_two_recipes_of_one_name_are_refused(settings, made_up_path, made_up_store) -> None:
    with pytest.raises(ConfigError, match="served already"):
        Models(settings(ONE, str(made_up_path)), made_up_store, Metrics())


async def test_other_machines_change_nothing_whatever_key_they_have(house) -> None:
    server = await house(ONE)
    for method, path in (("GET", ""), ("POST", f"/{OTHER}"), ("DELETE", f"/{ONE}")):
        status, error = await ask(server, method, path, headers={"X-Forwarded-For": "192.0.2.7"})
        assert (status, error["code"]) == (403, "not_local")
    assert list(server.runtime.models) == [ONE]
    origin = {"Origin": "https://elsewhere.example"}
    assert (await ask(server, "POST", f"/{OTHER}", headers=origin))[0] == 403


async def test_where_keys_are_asked_for_this_machine_needs_one_too(
    house, monkeypatch, tmp_path
) -> None:
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(tmp_path / "store"))
    key = Keys(default_path()).add("operator")
    server = await house(ONE)
    status, error = await ask(server, "POST", f"/{OTHER}")
    assert (status, error["code"]) == (401, "key_missing")
    monkeypatch.setenv("EDGE_RUNTIME_KEY", key)
    line = ["models", "list", "--url", server.url, "--json"]
    done = await asyncio.to_thread(CliRunner().invoke, app, line)
    assert [each["model"] for each in json.loads(done.output)["models"]] == [ONE]


async def test_the_command_lists_loads_and_unloads(house, turn) -> None:
    server = await house(ONE)

    async def run(*arguments: str):
        line = ["models", *arguments, "--url", server.url]
        return await asyncio.to_thread(CliRunner().invoke, app, line)

    done = await run("load", OTHER, "--default")
    assert done.exit_code == 0, done.output
    rows = {line.split()[0]: line for line in done.output.splitlines()[1:]}
    assert "default" in rows[OTHER]
    assert "cpu" in rows[ONE]
    told = json.loads((await run("list", "--json")).output)
    assert [each["model"] for each in told["models"]] == [OTHER, ONE]
    done = await run("unload", ONE)
    assert [line.split()[0] for line in done.output.splitlines()[1:]] == [OTHER]
    done = await run("unload", OTHER)
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit) or "is the default" in str(done.exception)


def test_the_command_says_where_no_server_is() -> None:
    done = CliRunner().invoke(app, ["models", "list", "--url", "ws://127.0.0.1:9/v1/stream"])
    assert done.exit_code == 1
    assert "no server answers at http://127.0.0.1:9" in f"{done.exception}{done.output}"

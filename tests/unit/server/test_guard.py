"""Who is let in, over real sockets: keys, pages, limits, and what they leave in the log."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import ipaddress
import logging
import re
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest

from edge_runtime.config import Admitting, Config, Serving
from edge_runtime.errors import ConfigError, DeviceError
from edge_runtime.metrics import Metrics
from edge_runtime.server import caller, create_app, guard, hosting, ports
from edge_runtime.server.door import DOORS
from edge_runtime.server.guard import GUARD, Guard
from edge_runtime.server.keys import Keys
from edge_runtime.server.native import Native
from edge_runtime.server.state import STATE

ROOT = Path(__file__).parents[3]


@pytest.fixture
def keys(tmp_path):
    """The keys of every server of `house`."""
    return Keys(tmp_path / "keys.json")


@pytest.fixture
def from_afar(monkeypatch):
    """Clients count as other machines."""
    monkeypatch.setattr(caller, "is_local", lambda host: False)


class StandIn:
    """A runtime, as far as one is asked for that has no session."""

    model, fallback, lost, about = "m", None, None, {}
    device = SimpleNamespace(name="d")
    serving = staticmethod(contextlib.nullcontext)
    languages = tasks = ()


async def get(server, path, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with server.http.get(server.url + path, headers=named) as answer:
        return answer.status, answer.headers, await answer.read()


async def refusal(server, **options):
    """How a WebSocket is turned away: the status and the error."""
    query = options.pop("query", "")
    headers = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", **options.pop("headers", {}),
    }  # fmt: skip
    async with server.http.get(f"{server.url}/v1/stream{query}", headers=headers) as answer:
        return answer.status, await answer.json(), answer.headers


async def serves(server, read, **options):
    stream = await server.connect({}, **options)
    await read.until(stream, "ready")
    return stream


async def test_without_a_key_nothing_is_asked_of_this_machine(house, read):
    await serves(await house(), read)


async def test_a_client_without_a_key_is_told_so_before_any_audio(house, keys):
    keys.add("phone")
    server = await house()
    status, error, headers = await refusal(server)
    assert (status, error["type"], error["code"]) == (401, "error", "key_missing")
    assert "Authorization: Bearer" in error["fix"]
    assert headers["WWW-Authenticate"].startswith("Bearer")
    status, error, _ = await refusal(server, headers={"Authorization": "Bearer er_wrong"})
    assert (status, error["code"]) == (401, "key_unknown")
    assert error["fix"]
    assert server.runtime.streams == []
    for code in ("key_missing", "key_unknown"):
        assert server.metrics.value("edge_runtime_refused_total", code=code) == 1


async def test_a_key_opens_in_each_of_its_places(house, keys, read):
    key = keys.add("phone")
    server = await house()
    await serves(server, read, headers={"Authorization": f"Bearer {key}"})
    browser = await serves(server, read, protocols=["edge-runtime", f"edge-runtime-key.{key}"])
    assert browser.protocol == "edge-runtime"  # never the key
    for name in ("key", "token"):
        stream = await server.http.ws_connect(f"{server.url}/v1/stream?{name}={key}")
        server.sockets.append(stream)
        await stream.send_json({"type": "start"})
        await read.until(stream, "ready")
    assert server.metrics.value("edge_runtime_key_sessions_total", key="phone") == 4


async def test_a_key_is_added_and_revoked_while_two_servers_run(house, keys, read, monkeypatch):
    monkeypatch.setattr(guard, "_AGAIN", 0.05)
    first = keys.add("first")
    servers = [await house(), await house()]
    headers = {"Authorization": f"Bearer {first}"}
    late = keys.add("late")
    for server in servers:
        await serves(server, read, headers={"Authorization": f"Bearer {late}"})
    kept = [await serves(server, read, headers=headers) for server in servers]
    keys.remove("late")
    for server in servers:
        status, error, _ = await refusal(server, headers={"Authorization": f"Bearer {late}"})
        assert (status, error["code"]) == (401, "key_unknown")
        message = await asyncio.wait_for(server.sockets[0].receive(), 5)  # it is cut off
        assert message.type in {aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR}
    for stream in kept:
        await stream.send_json({"type": "flush"})
        await read.until(stream, "flushed")


async def test_removing_the_last_key_lets_nobody_in(house, keys):
    keys.add("phone")
    server = await house()
    assert (await refusal(server))[0] == 401
    keys.remove("phone")
    assert (await refusal(server))[0] == 401
    keys.path.unlink()
    assert (await refusal(server))[0] == 401


async def test_the_first_key_closes_a_server_that_was_open(house, keys, read):
    server = await house()
    await serves(server, read)
    keys.add("phone")
    assert (await refusal(server))[0] == 401


async def test_a_file_that_is_damaged_changes_nothing(house, keys, read, caplog):
    key = keys.add("phone")
    server = await house()
    await serves(server, read, headers={"Authorization": f"Bearer {key}"})
    keys.path.write_text("oops")
    await serves(server, read, headers={"Authorization": f"Bearer {key}"})
    assert (await refusal(server))[0] == 401
    assert "does not hold keys" in caplog.text


async def test_a_file_that_was_never_readable_lets_nobody_in(house, keys):
    keys.path.write_text("oops")
    assert (await refusal(await house()))[0] == 401


async def test_keys_may_be_wanted_always_and_never(house, keys, read):
    server = await house(admitting={"keys": "always"})
    assert (await refusal(server))[0] == 401
    keys.add("phone")
    await serves(await house(admitting={"keys": "never"}), read)


async def test_no_log_has_a_key(house, keys, read, caplog):
    caplog.set_level(logging.DEBUG)
    key = keys.add("phone")
    server = await house()
    await serves(server, read, headers={"Authorization": f"Bearer {key}"})
    await serves(server, read, protocols=["edge-runtime", f"edge-runtime-key.{key}"])
    await serves(server, read, protocols=[f"edge-runtime-key.{key}"])
    await refusal(server, query=f"?key={key}x")
    await get(server, f"/nothing?key={key}")
    host, port = server.url.removeprefix("http://").split(":")
    for request in (f"GET /v1/stream?key={key}\x01 HTTP/1.1\r\n\r\n", f"{key} / HTTP/9\r\n\r\n",
                    f"GET / HTTP/1.1\r\nAuthorization Bearer {key}\r\n\r\n"):  # fmt: skip
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request.encode())
        assert b" 400 " in await reader.readline()
        writer.close()
    ours = "\n".join(r.getMessage() for r in caplog.records if r.name.startswith("edge_runtime"))
    assert "/v1/stream from 127.0.0.1, key phone" in ours
    assert "/v1/stream from 127.0.0.1: the key is none of this server's" in ours
    # `caplog.text` is with tracebacks
    assert key not in caplog.text
    assert "Traceback" not in caplog.text
    assert "phone" in server.metrics.text().decode()
    assert key not in server.metrics.text().decode()


async def test_a_proxy_on_this_machine_speaks_for_others(house, keys, caplog):
    caplog.set_level(logging.INFO)
    keys.add("phone")
    server = await house()
    assert (await get(server, "/metrics"))[0] == 200
    forwarded = "127.0.0.1, 203.0.113.9"  # the first is what the client itself wrote
    assert (await get(server, "/metrics", X_Forwarded_For=forwarded))[0] == 401
    assert (await get(server, "/metrics", Via="1.1 proxy"))[0] == 401
    assert "/metrics from 203.0.113.9" in caplog.text


async def test_what_other_machines_may_see_without_a_key(house, keys, from_afar):
    key = keys.add("phone")
    server = await house()
    server.runtime.fallback = "cpu is used: /opt/engines/tiny.plan is damaged"
    server.state.store = "/var/lib/edge-runtime"
    assert (await get(server, "/readyz"))[0] == 200
    status, _, body = await get(server, "/healthz")
    assert status == 200
    assert b"version" in body
    for secret in (b"stand-in", b"sessions", b"/var", b"/opt"):
        assert secret not in body
    assert (await get(server, "/metrics"))[0] == 401
    known = {"Authorization": f"Bearer {key}"}
    assert (await get(server, "/metrics", **known))[0] == 200
    _, _, body = await get(server, "/healthz", **known)
    assert b"tiny.plan is damaged" in body
    assert b"stand-in" in body
    for secret in (b"/var", b"/opt"):
        assert secret not in body


async def test_metrics_may_be_open(house, keys, from_afar):
    keys.add("phone")
    server = await house(admitting={"open_metrics": True})
    assert (await get(server, "/metrics"))[0] == 200


async def test_other_protocols_say_no_in_their_own_words(house, keys):
    key = keys.add("phone")
    server = await house()
    url = f"{server.url}/v1/audio/transcriptions"
    async with server.http.post(url, data=b"x") as answer:
        assert answer.status == 401
        assert (await answer.json())["error"]["code"] == "key_missing"
    known = {"Authorization": f"Bearer {key}"}
    form = {"model": "m", "file": io.BytesIO(b"no audio")}
    async with server.http.post(url, data=form, headers=known) as answer:
        assert answer.status == 400  # it was let in


async def test_a_port_of_its_own_is_guarded_as_the_main_one(house, keys, read, monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setattr(ports.dialects, "ports", lambda config: {port: Native})
    key = keys.add("phone")
    server = await house(admitting={"header_seconds": 0.3})
    server.url = f"http://127.0.0.1:{port}"
    status, error, _ = await refusal(server)
    assert (status, error["code"]) == (401, "key_missing")
    assert (await refusal(server, headers={"Origin": "https://evil.example"}))[0] == 403
    assert (await get(server, "/metrics"))[0] == 401
    await serves(server, read, headers={"Authorization": f"Bearer {key}"})
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


async def test_no_path_of_a_file_is_in_an_error(house, read, speech):
    server = await house()
    stream = await serves(server, read)
    server.runtime.streams[0].failure = DeviceError(
        "/opt/engines/tiny.plan is damaged", "Look at /var/log/syslog."
    )
    await stream.send_bytes(speech(1600))
    (error,), _ = await read.rest(stream)
    assert (error["message"], error["fix"]) == ("tiny.plan is damaged", "Look at syslog.")


async def test_a_page_of_another_site_is_turned_away(house, read):
    server = await house(admitting={"origins": "https://captions.example.org"})
    status, error, _ = await refusal(server, headers={"Origin": "https://evil.example"})
    assert (status, error["code"]) == (403, "origin")
    assert "origins" in error["fix"]
    rebound = {"Origin": "http://evil.example", "Host": "evil.example"}
    assert (await refusal(server, headers=rebound))[0] == 403
    assert (await get(server, "/healthz", Origin="https://evil.example"))[0] == 403
    for origin in ("https://captions.example.org", "http://localhost:3000", server.url):
        await serves(server, read, origin=origin)
        _, headers, _ = await get(server, "/healthz", Origin=origin)
        assert headers["Access-Control-Allow-Origin"] == origin
    _, headers, _ = await get(server, "/healthz")
    assert "Access-Control-Allow-Origin" not in headers


async def test_a_browser_may_ask_first_and_needs_no_key_for_that(house, keys):
    keys.add("phone")
    server = await house()
    asking = {
        "Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }  # fmt: skip
    async with server.http.options(f"{server.url}/v1/stream", headers=asking) as answer:
        assert answer.status == 204
        assert answer.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
        assert "authorization" in answer.headers["Access-Control-Allow-Headers"]
    asking["Origin"] = "https://evil.example"
    async with server.http.options(f"{server.url}/v1/stream", headers=asking) as answer:
        assert answer.status == 403
        assert "Access-Control-Allow-Origin" not in answer.headers


async def test_an_address_has_so_many_sessions(house, read, from_afar):
    server = await house(admitting={"sessions_per_address": 2})
    first = await serves(server, read)
    await serves(server, read)
    status, error, _ = await refusal(server)
    assert (status, error["code"]) == (429, "too_many_sessions")
    await first.close()
    for _ in range(100):
        await asyncio.sleep(0.02)
        if server.metrics.value("edge_runtime_sessions_open") == 1:
            break
    await serves(server, read)


async def test_a_key_has_so_many_sessions_wherever_its_clients_are(house, read, keys):
    phone, tablet = keys.add("phone"), keys.add("tablet")
    server = await house(admitting={"sessions_per_key": 2})
    shown = [{"Authorization": f"Bearer {key}"} for key in (phone, tablet)]
    for _ in range(2):
        await serves(server, read, headers=shown[0])
    status, error, _ = await refusal(server, headers=shown[0])
    assert (status, error["code"]) == (429, "too_many_sessions")
    assert error["message"] == "the key phone has 2 sessions open"
    await serves(server, read, headers=shown[1])


async def test_a_session_is_taken_up_only_with_its_key(house, read, keys):
    phone, tablet = keys.add("phone"), keys.add("tablet")
    server = await house()
    parks = {"resume": {"token": "", "last_seq": 0}}
    socket = await server.connect(parks, headers={"Authorization": f"Bearer {phone}"})
    (ready,) = await read.until(socket, "ready")
    again = {"resume": {"token": ready["resume"], "last_seq": 1}}
    stolen = await server.connect(again, headers={"Authorization": f"Bearer {tablet}"})
    events, code = await read.rest(stolen)
    assert (events[-1]["code"], code) == ("resume_gone", 1008)
    back = await server.connect(again, headers={"Authorization": f"Bearer {phone}"})
    (found,) = await read.until(back, "ready")
    assert found["session"] == ready["session"]


async def test_an_address_begins_so_many_sessions_in_a_minute(house, read, from_afar):
    server = await house(admitting={"sessions_per_minute": 2})
    for _ in range(2):
        await (await serves(server, read)).close()
    status, error, headers = await refusal(server)
    assert (status, error["code"]) == (429, "too_often")
    assert 1 <= int(headers["Retry-After"]) <= 30
    assert (await get(server, "/healthz"))[0] == 200


async def test_programs_of_this_machine_are_not_counted(house, read):
    server = await house(admitting={"sessions_per_address": 1, "sessions_per_minute": 1})
    for _ in range(3):
        await serves(server, read)


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"])
async def test_headers_that_never_end_are_cut_off(house, sent):
    server = await house(admitting={"header_seconds": 0.3})
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    began = time.monotonic()

    async def drip():
        writer.write(sent)
        for _ in range(50):
            await asyncio.sleep(0.05)
            writer.write(b"X: y\r\n" if sent.endswith(b"\n") else b"")

    dripping = asyncio.create_task(drip())
    assert await asyncio.wait_for(reader.read(), 5) == b""
    assert 0.2 < time.monotonic() - began < 2
    dripping.cancel()
    writer.close()


def test_the_start_message_must_come_in_time():
    app = create_app(Config(admitting=Admitting(start_seconds=0.7)), Metrics())
    assert app[STATE].limits.hello == 0.7


FREE = {
    "/healthz", "/readyz", "/metrics", "/", "/page/{name}", "/page/updates",
}  # fmt: skip
"""For this machine or for anybody, without a key."""


def test_what_is_free_of_keys_is_listed(keys):
    app = create_app(Config(admitting=Admitting(keys_file=str(keys.path))), Metrics())
    free = {path for path, door in app[DOORS].items() if door.without != "nobody"}
    assert free == FREE


async def test_every_other_path_wants_a_key_whoever_adds_it(keys):
    """Also one that has no door: it is not open by mistake."""
    keys.add("phone")
    app = create_app(
        Config(serving=Serving(port=0), admitting=Admitting(keys_file=str(keys.path))), Metrics()
    )

    async def later(request):
        pytest.fail("it was let in")

    app.router.add_get("/v1/later/{name}", later)
    async with hosting(app, StandIn) as (url, _), aiohttp.ClientSession() as http:
        for resource in app.router.resources():
            for route in resource:
                path = resource.canonical.replace("{name}", "x")
                async with http.request(route.method, url + path) as answer:
                    free = resource.canonical in FREE
                    assert (answer.status == 401) == (not free), path
                    assert route.method == "HEAD" or free or await answer.json()


@pytest.mark.parametrize(
    ("host", "admitting", "has_key", "may"),
    [
        ("127.0.0.1", {}, False, True),
        ("localhost", {}, False, True),
        ("0.0.0.0", {}, False, False),
        ("::", {}, False, False),
        ("192.168.1.20", {}, False, False),
        ("kiosk.local", {}, False, False),
        ("0.0.0.0", {}, True, True),
        ("0.0.0.0", {"keys": "never"}, False, True),
        ("0.0.0.0", {"keys": "always"}, False, True),  # nobody gets in until there is a key
    ],
)
def test_an_address_for_everybody_wants_a_key(keys, caplog, host, admitting, has_key, may):
    if has_key:
        keys.add("phone")
    config = Config(serving=Serving(host=host), admitting=Admitting(**admitting))
    asked = Guard(config, Metrics(), keys)
    if may:
        asked.may_listen()
    else:
        with pytest.raises(ConfigError, match="there is no key") as caught:
            asked.may_listen()
        assert "edge-runtime keys add NAME" in caught.value.fix
        assert "--no-keys" in caught.value.fix
    assert ("without keys" in caplog.text) == (admitting.get("keys") == "never")
    assert ("without TLS" in caplog.text) == (may and host == "0.0.0.0")


async def test_a_server_for_everybody_without_a_key_never_listens(keys):
    config = Config(
        serving=Serving(host="0.0.0.0", port=0), admitting=Admitting(keys_file=str(keys.path))
    )
    with pytest.raises(ConfigError, match="there is no key"):
        async with hosting(create_app(config, Metrics()), pytest.fail):
            pass


async def test_a_protocol_that_carries_no_key_is_for_this_machine(house, keys):
    server = await house(admitting={"sessions_per_address": 1})
    visit = server.app[GUARD].visit
    with visit("192.0.2.1", "x"), pytest.raises(guard.NotAdmitted, match="sessions open"):
        visit("192.0.2.1", "x").__enter__()
    keys.add("phone")
    with visit("127.0.0.1", "x"), visit("::1", "x"):
        pass
    listed = [ipaddress.ip_network("192.0.2.0/24"), ipaddress.ip_network("fe80::/10")]
    with visit("192.0.2.1", "x", listed), visit("fe80::1%eth0", "x", listed):
        pass
    for address in ("192.0.3.1", "2001:db8::1"):
        with pytest.raises(guard.NotAdmitted, match="carries no key"):
            visit(address, "x", listed).__enter__()


def test_the_name_of_a_key_counts_up_to_a_hundred():
    metrics = Metrics()
    for number in range(150):
        metrics.key_used(f"k{number}")
    metrics.key_used("k7")
    assert metrics.value("edge_runtime_key_sessions_total", key="k7") == 2
    assert metrics.value("edge_runtime_key_sessions_total", key="(other)") == 50


def test_the_page_tells_every_way_to_be_turned_away():
    page = (ROOT / "docs" / "protocol.md").read_text()
    written = set(re.findall(r"^\| (\d{3}) \| `(\w+)` \|", page, re.M))
    made = set()
    for path in (ROOT / "edge_runtime" / "server").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "NotAdmitted":
                made.add((str(node.args[3].value), node.args[0].value))
    assert made == written
    assert len(made) >= 5


async def test_a_client_that_hangs_up_at_once_is_no_trouble(house, keys, caplog):
    keys.add("phone")
    server = await house()
    host, port = server.url.removeprefix("http://").split(":")
    for _ in range(20):
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0.1)
    assert "Traceback" not in caplog.text
    assert (await get(server, "/readyz"))[0] == 200

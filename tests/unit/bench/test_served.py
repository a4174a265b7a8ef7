"""A bench says in what form the model was that it measured."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from rich.console import Console

from edge_runtime.bench.bench import Bench, Options, progress
from edge_runtime.bench.manifest import Manifest
from edge_runtime.bench.served import Served

HEALTH = {
    "model": "tiny", "device": "cpu", "precision": "int8", "variant": "a1b2", "forced": True,
    "variant_unused": None,
}  # fmt: skip


@pytest.fixture
def health() -> Iterator[dict[str, object]]:
    """What a server tells of itself; its address under "url"."""
    told: dict[str, object] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told["shown"] = self.headers["Authorization"]
            known = self.path == "/healthz" and "told" in told
            body = json.dumps(told.get("told")).encode()
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    told["url"] = f"ws://127.0.0.1:{server.server_address[1]}/v1/stream"
    yield told
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def bench(tmp_path, health) -> Bench:
    options = Options(url=str(health["url"]))
    return Bench(Manifest(tmp_path, ()), options, progress(Console(quiet=True)))


def test_each_form_that_served_is_noted_once(bench, health) -> None:
    health["told"] = HEALTH
    for _ in "ab":
        with bench.server():
            pass
    health["told"] = {
        **HEALTH, "precision": "fp32", "variant": None, "forced": False,
        "variant_unused": "It differs.",
    }  # fmt: skip
    with bench.server():
        pass
    assert bench.served == [
        Served("server", "tiny", "cpu", "int8", "a1b2", forced=True),
        Served("server", "tiny", "cpu", "fp32", unused="It differs."),
    ]
    assert [each.line() for each in bench.served] == [
        "server: tiny on cpu, int8, variant a1b2, forced",
        "server: tiny on cpu, fp32 (the calibrated model is not used: It differs.)",
    ]


def test_health_is_asked_for_with_the_key_of_the_environment(bench, health, monkeypatch) -> None:
    monkeypatch.setenv("EDGE_RUNTIME_KEY", "er_x")
    with bench.server():
        pass
    assert health["shown"] == "Bearer er_x"


@pytest.mark.parametrize("told", [None, [], {"status": "ok"}])
def test_what_a_server_does_not_tell_is_unknown(bench, health, told) -> None:
    if told is not None:
        health["told"] = told
    with bench.server():
        pass
    assert bench.served == [Served("server")]
    assert bench.served[0].line() == "server: unknown model on unknown, unknown precision"

"""Profiles go to a server that plays Pyroscope's, where the settings name one, and nowhere else."""

from __future__ import annotations

import gzip
import importlib.util
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from edge_runtime.config import Config, Telemetry
from edge_runtime.errors import ConfigError, MissingExtra
from edge_runtime.metrics import Metrics
from edge_runtime.server import profiling, serve
from edge_runtime.server.profiling import profiled


@pytest.fixture
def pyroscope(monkeypatch):
    """The address of one that keeps what is pushed, and what it kept: (path, bytes)."""
    pytest.importorskip("pyroscope", reason="pip install 'edge-runtime[pyroscope]'")
    monkeypatch.setattr(profiling, "EVERY", 1)
    kept = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            pushed = self.rfile.read(int(self.headers["Content-Length"]))
            kept.append((self.path, gzip.decompress(pushed)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", kept
    server.shutdown()
    thread.join()
    server.server_close()


def takes_the_time(until):
    ends = time.monotonic() + 10
    while not until() and time.monotonic() < ends:
        sum(range(1000))


def test_a_profile_names_the_functions_that_take_the_time(pyroscope):
    where, kept = pyroscope
    with profiled(Telemetry(pyroscope_server=where)):
        takes_the_time(lambda: any(b"takes_the_time" in pushed for _, pushed in kept))
    path, pushed = next(each for each in kept if b"takes_the_time" in each[1])
    assert path == "/push.v1.PusherService/Push"
    assert b"edge-runtime" in pushed
    assert b"test_profiling.py" in pushed


def test_one_that_is_not_there_keeps_nobody_waiting(pyroscope):
    began = time.monotonic()
    with profiled(Telemetry(pyroscope_server="http://127.0.0.1:9")):
        pass
    assert time.monotonic() - began < profiling.LAST + 1


def test_the_agent_is_not_loaded_unless_it_is_asked_for(monkeypatch):
    monkeypatch.delitem(sys.modules, "pyroscope", raising=False)
    with profiled(Telemetry()):
        assert "pyroscope" not in sys.modules


async def test_without_the_extra_a_server_does_not_begin(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    config = Config(telemetry=Telemetry(pyroscope_server="http://127.0.0.1:4040"))
    loaded = []
    with pytest.raises(MissingExtra, match="not installed") as caught:
        await serve(config, lambda: loaded.append(1), Metrics(), print)
    assert "edge-runtime[pyroscope]" in caught.value.fix
    assert not loaded


def test_an_address_has_a_scheme():
    with pytest.raises(ConfigError, match=r"telemetry\.pyroscope_server is 'here:4040'"):
        Telemetry(pyroscope_server="here:4040")

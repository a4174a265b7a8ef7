"""Spans that reach a collector over HTTP, what is not in them, and collectors that fail."""

from __future__ import annotations

import asyncio
import importlib
import logging
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from edge_runtime import __version__
from edge_runtime.audio import FRAME
from edge_runtime.config import Config, Telemetry
from edge_runtime.errors import ConfigError, DeviceError, MissingExtra
from edge_runtime.events import Closed, Final
from edge_runtime.runtime.tracing import Untraced, choice, open_tracer

OTEL = "edge_runtime.runtime.tracing.otel"
SPEECH = np.concatenate([np.full(60 * FRAME, 1.0, np.float32), np.zeros(30 * FRAME, np.float32)])


@pytest.fixture
def sdk():
    return pytest.importorskip("opentelemetry.sdk", reason="pip install 'edge-runtime[otel]'")


class Collector(ThreadingHTTPServer):
    """Takes what is posted, and answers with `status`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.taken: list[tuple[str, bytes]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self):
        """Every span, with its attributes as a dict, and the resource's attributes."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        found, resource = [], {}
        for _, body in self.taken:
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource |= attributes(group.resource.attributes)
                for scope in group.scope_spans:
                    found += [(span, attributes(span.attributes)) for span in scope.spans]
        return found, resource


class Taking(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.path, body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_) -> None:
        return None


def attributes(pairs) -> dict:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@pytest.fixture
def collector():
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def traced(endpoint: str) -> Config:
    return Config(telemetry=Telemetry(otlp_endpoint=endpoint))


async def play(runtime) -> tuple[list, float]:
    """Speech through a runtime; its events, and the seconds it served."""
    began = time.monotonic()
    async with runtime.serving():
        stream = runtime.open()
        reading = asyncio.create_task(read(stream))
        await stream.feed(SPEECH)
        stream.stop()
        events = await asyncio.wait_for(reading, 10)
    return events, time.monotonic() - began


async def read(stream) -> list:
    return [event async for event in stream]


async def test_sessions_and_updates_reach_a_collector(sdk, collector, make):
    before = time.time_ns()
    events, _ = await play(make("cpu", traced(collector.url + "/")))
    assert {path for path, _ in collector.taken} == {"/v1/traces"}
    found, resource = collector.spans()
    assert resource["service.name"] == "edge-runtime"
    assert resource["service.version"] == __version__
    ((session, told),) = [each for each in found if each[0].name == "session"]
    updates = [each for each in found if each[0].name == "update"]
    assert len(found) == 1 + len(updates) > 2
    assert before <= session.start_time_unix_nano < session.end_time_unix_nano <= time.time_ns()
    always = {
        "edge_runtime.version": __version__, "edge_runtime.precision": "fp32",
        "edge_runtime.variant": "", "edge_runtime.device": "cpu",
        "edge_runtime.model": "stand-in", "edge_runtime.session": "s1",
    }  # fmt: skip
    assert told == always
    for span, about in updates:
        assert span.trace_id == session.trace_id
        assert span.parent_span_id == session.span_id
        assert session.start_time_unix_nano <= span.start_time_unix_nano
        assert span.start_time_unix_nano <= span.end_time_unix_nano <= time.time_ns()
        assert always.items() <= about.items()
        assert about["edge_runtime.queue_seconds"] >= 0
        assert about["edge_runtime.host_waits"] == 3
        assert about["edge_runtime.audio_seconds"] > 0
    purposes = {about["edge_runtime.purpose"] for _, about in updates}
    assert purposes <= {"partial", "speculative", "final"}
    assert any(isinstance(event, Final) for event in events)


async def test_no_text_and_no_audio_is_in_them(sdk, collector, make):
    events, _ = await play(make("cpu", traced(collector.url)))
    texts = {event.text for event in events if isinstance(event, Final) and event.text}
    assert texts
    found, _ = collector.spans()
    for span, about in found:
        assert not span.events
        words = [value for value in about.values() if isinstance(value, str)]
        assert set(words) <= {
            __version__, "", "s1", "cpu", "fp32", "stand-in",
            "partial", "speculative", "final",
        }  # fmt: skip
        assert not texts & set(words)


async def test_an_update_that_failed_says_so(sdk, collector, make, devices):
    runtime = make("cpu", traced(collector.url))
    devices["cpu"].breaks["run"] = DeviceError("made to fail", "Do not.")
    await play(runtime)
    del devices["cpu"].breaks["run"]
    failed = [each for each in collector.spans()[0] if each[0].name == "update"]
    assert failed
    assert {about["error.type"] for _, about in failed} == {"device"}
    assert {span.status.code for span, _ in failed} == {2}


@pytest.mark.parametrize("how", ["closed", "silent", "refusing"])
async def test_a_collector_that_fails_touches_no_caption(sdk, collector, make, how, monkeypatch):
    """Nobody listens, it takes and never answers, or it is out of order."""
    monkeypatch.setattr(importlib.import_module(OTEL), "LAST", 0.2)
    well, _ = await play(make("cpu", traced("")))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if how == "silent":
            silent.listen()
        where = f"http://127.0.0.1:{silent.getsockname()[1]}"
        collector.status = 503
        events, took = await play(
            make("cpu", traced(collector.url if how == "refusing" else where))
        )
    finals = [[e.text for e in each if isinstance(e, Final)] for each in (well, events)]
    assert finals[0] == finals[1] != []
    assert isinstance(events[-1], Closed)
    assert took < 2.0


async def test_a_collector_that_is_away_is_said_once(sdk, make, monkeypatch, caplog):
    otel = importlib.import_module(OTEL)
    monkeypatch.setattr(otel, "LAST", 0.2)
    for name in otel.COMPLAIN:
        logging.getLogger(name).filters.clear()
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        where = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        for _ in range(2):
            await play(make("cpu", traced(where)))
    said = [each for each in caplog.records if each.name == otel.COMPLAIN[0]]
    assert len(said) == 1
    caplog.clear()
    logging.getLogger(otel.COMPLAIN[1]).warning("once")
    logging.getLogger(otel.COMPLAIN[1]).warning("twice")
    assert [each.getMessage() for each in caplog.records] == ["once"]


def test_nobody_is_told_unless_it_is_asked_for(monkeypatch):
    assert isinstance(open_tracer(Telemetry(), dict, {}), Untraced)
    there = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
    for off in ({"OTEL_SDK_DISABLED": "True"}, {"OTEL_TRACES_EXPORTER": "none"}):
        assert isinstance(open_tracer(Telemetry(), dict, {**there, **off}), Untraced)


def test_the_sdk_is_not_loaded_unless_it_is_asked_for():
    load = "import sys, edge_runtime.runtime as r; from edge_runtime.runtime.tracing import *; "
    look = "open_tracer(r.Config().telemetry, dict, {}); print('opentelemetry' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", load + look], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "False"


def test_without_the_extra_settings_fail_and_variables_warn(monkeypatch, caplog):
    monkeypatch.setattr(choice, "_installed", lambda: False)
    there = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}
    assert isinstance(open_tracer(Telemetry(), dict, there), Untraced)
    assert "no traces are sent" in caplog.text
    with pytest.raises(MissingExtra, match="not installed") as caught:
        open_tracer(Telemetry(otlp_endpoint="http://127.0.0.1:4318"), dict, {})
    assert "edge-runtime[otel]" in caught.value.fix


async def test_the_variables_name_a_collector_too(sdk, collector, make, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "kiosk")
    await play(make("cpu", traced("")))
    _, resource = collector.spans()
    assert resource["service.name"] == "kiosk"


def test_an_address_has_a_scheme():
    with pytest.raises(ConfigError, match=r"telemetry\.otlp_endpoint is 'here:4318'"):
        Telemetry(otlp_endpoint="here:4318")

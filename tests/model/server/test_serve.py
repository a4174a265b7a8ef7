"""The command itself, as a process of its own: its start, its one clear line, its end."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time

import aiohttp
import pytest

from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing

CLIP = "1088-134315-0002"
SERVE = [sys.executable, "-m", "edge_runtime", "serve"]


@pytest.fixture(autouse=True)
def _no_keys_of_whoever_runs_this(monkeypatch, tmp_path):
    monkeypatch.setenv("EDGE_RUNTIME_ADMITTING_KEYS_FILE", str(tmp_path / "keys.json"))


@pytest.fixture(autouse=True)
def _model():
    try:
        Store().graphs(load_recipe("moonshine-tiny-en"))
    except ModelMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
async def serving(port):
    """A server process that is ready, and how long that took (s)."""
    began = time.monotonic()
    process = begin(port)
    url = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession() as http:
            while not await ready(http, url):
                assert process.poll() is None, process.stderr.read()
                assert time.monotonic() - began < 30
                await asyncio.sleep(0.02)
            yield process, http, url, time.monotonic() - began
    finally:
        process.kill()
        process.communicate()


def begin(port, *options):
    command = [*SERVE, "--port", str(port), *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


async def ready(http, url):
    try:
        async with http.get(f"{url}/readyz") as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def test_it_is_ready_soon_and_says_what_to_do_next(serving, port):
    process, http, url, seconds = serving
    async with http.get(f"{url}/metrics") as answer:
        text = await answer.text()
    # of its own work, whatever else the machine does; the bench holds the clock to 3 s
    spent = float(re.search(r"^edge_runtime_process_cpu_seconds_total (\S+)", text, re.M)[1])
    assert spent <= 3.0, f"ready after {seconds:.1f} s, {spent} of them on a CPU"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=15)
    assert process.returncode == 0
    assert f"serving moonshine-tiny-en on cpu: ws://127.0.0.1:{port}/v1/stream" in said
    assert "edge-runtime listen" in said
    assert "Traceback" not in said


async def test_sigterm_finalises_what_was_said(serving, read, clip):
    process, http, url, _ = serving
    stream = await http.ws_connect(f"{url}/v1/stream")
    await stream.send_json({"type": "start"})
    await stream.send_bytes(clip(CLIP).pcm[: 4 * 32000])
    events = await read.until(stream, "speech_start")
    await asyncio.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    later, code = await read.rest(stream)
    _, said = process.communicate(timeout=15)
    read.check(events + later)
    assert len(read.text(events + later).split()) > 3
    assert (later[-1]["type"], later[-1]["reason"]) == ("closed", "shutdown")
    assert code == 1001
    assert process.returncode == 0
    assert "Traceback" not in said


async def test_a_second_server_on_the_port_says_so_in_one_line(serving, port):
    second = begin(port)
    _, said = second.communicate(timeout=30)
    assert second.returncode == 1
    lines = said.strip().splitlines()
    assert lines[0] == f"error: port {port} of 127.0.0.1 is taken"
    assert "--port" in lines[1]
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("options", "variables", "said"),
    [
        (["--model", "moonshine-tiny-xx"], {}, "moonshine-tiny-xx"),
        (["--model", "silero-vad"], {}, "silero-vad"),
        (["--port", "70000"], {}, "0 to 65535"),
        ([], {"EDGE_RUNTIME_PROT": "1"}, "PORT"),
        (["--config", "/no/such/file.toml"], {}, "/no/such/file.toml does not exist"),
        ([], {"EDGE_RUNTIME_STORE": "/no/such/store"}, "edge-runtime pull"),
    ],
)
def test_what_cannot_be_served_is_said_in_two_lines(port, options, variables, said):
    done = subprocess.run(
        [*SERVE, "--port", str(port), *options],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 2
    assert done.stderr.startswith("error: ")


def test_an_address_for_everybody_wants_a_key_first(port):
    done = subprocess.run(
        [*SERVE, "--port", str(port), "--host", "0.0.0.0"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    first, second = done.stderr.strip().splitlines()
    assert first == "error: other machines reach 0.0.0.0, and there is no key"
    assert "edge-runtime keys add NAME" in second
    assert "--no-keys" in second


def test_an_address_for_everybody_without_keys_is_warned_of(port):
    process = begin(port, "--host", "0.0.0.0", "--no-keys")
    lines = [process.stderr.readline() for _ in range(3)]
    process.terminate()
    process.communicate(timeout=15)
    for line, what in zip(lines, ("without keys", "without TLS"), strict=False):
        assert "WARNING" in line
        assert f"0.0.0.0 {what}" in line
    assert lines[2].startswith("serving")
    assert process.returncode == 0

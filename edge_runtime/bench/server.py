"""The server under test: a process of our own, or one that runs elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from edge_runtime.bench.process import Process
from edge_runtime.bench.scrape import Scrape
from edge_runtime.config import key
from edge_runtime.errors import DeviceError

_PATIENCE = 120.0  # seconds until /readyz must answer
_PROGRAM = (sys.executable, "-m", "edge_runtime")


@dataclass(frozen=True)
class Server:
    """Where it listens; `process` is None for a server that is not ours."""

    url: str
    process: Process | None = None
    ready_after: float | None = None

    @property
    def site(self) -> str:
        parts = urlsplit(self.url)
        return f"{'https' if parts.scheme == 'wss' else 'http'}://{parts.netloc}"

    def scrape(self) -> Scrape:
        """/metrics, now; nothing where the server has none."""
        try:
            return Scrape.parse(_get(f"{self.site}/metrics"))
        except OSError:
            return Scrape({})

    def health(self) -> dict[str, Any]:
        """/healthz, now; nothing where it cannot be read."""
        try:
            told = json.loads(_get(f"{self.site}/healthz"))
        except (OSError, ValueError):
            return {}
        return told if isinstance(told, dict) else {}

    def cpu(self) -> float | None:
        return self.process.cpu() if self.process else None


def _get(url: str) -> str:
    request = urllib.request.Request(url, headers=key.shown())
    with urllib.request.urlopen(request, timeout=5) as answer:
        return str(answer.read().decode())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def arguments(model: str, device: str, config: Path | None) -> list[str]:
    """The options that our server and our own commands get alike."""
    return [
        *(("--model", model) if model else ()),
        *(("--device", device) if device else ()),
        *(("--config", str(config)) if config else ()),
    ]


@contextlib.contextmanager
def started(options: Sequence[str], program: Sequence[str] = _PROGRAM) -> Iterator[Server]:
    """A fresh `edge-runtime serve` on a free port, ended on leaving; `program` runs it.

    Raises `DeviceError` with the end of its log when it stops or is not ready in time.
    """
    port = _free_port()
    command = [*program, "serve", "--port", str(port), *options]
    with tempfile.TemporaryFile() as log:
        began = time.perf_counter()
        # a session of its own, so that Ctrl-C reaches the bench alone
        child = subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True, env=_environment()
        )
        try:
            ready = _await_ready(child, f"http://127.0.0.1:{port}/readyz", began, log.fileno())
            yield Server(
                f"ws://127.0.0.1:{port}/v1/stream",
                Process(child.pid),
                ready,
            )
        finally:
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _environment() -> dict[str, str]:
    """Ours, but that the bench's clients need no key of the keys that this machine has."""
    return {**os.environ, "EDGE_RUNTIME_ADMITTING_KEYS": "never"}


def _await_ready(child: subprocess.Popen[bytes], url: str, began: float, log: int) -> float:
    while time.perf_counter() - began < _PATIENCE:
        if child.poll() is not None:
            raise DeviceError(
                f"the server stopped with code {child.returncode}: {_tail(log)}",
                "Run `edge-runtime serve` with the same options to see why.",
            )
        try:
            _get(url)
        except (urllib.error.URLError, OSError):
            time.sleep(0.005)
        else:
            return time.perf_counter() - began
    raise DeviceError(
        f"the server was not ready after {_PATIENCE:.0f} s: {_tail(log)}",
        "Run `edge-runtime serve` with the same options to see why.",
    )


def _tail(log: int) -> str:
    size = os.fstat(log).st_size
    return os.pread(log, 1000, max(0, size - 1000)).decode(errors="replace").strip()

"""The server under a manager: told what it expects, fed by work, started on a socket."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
import soundfile

from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing

SECONDS = 1.0
"""What the watchdog of these tests waits."""

# What systemd does before it runs a service: the process is the one that is meant, and the
# socket is its first descriptor after the standard ones.
AS_SYSTEMD = """
import os, runpy, sys
os.environ["LISTEN_PID"] = os.environ["WATCHDOG_PID"] = str(os.getpid())
sys.argv = ["edge-runtime", "serve"]
runpy.run_module("edge_runtime", run_name="__main__")
"""


class Manager:
    """Plays systemd for one server: its notify socket, its watchdog, its listening socket."""

    def __init__(self, folder: Path) -> None:
        self.said: list[tuple[float, dict[str, str]]] = []
        self._ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._ear.bind(str(folder / "notify"))
        self.port = socket.create_server(("127.0.0.1", 0))
        self.where = f"http://127.0.0.1:{self.port.getsockname()[1]}"
        self.log = folder / "journal"
        self.began = time.monotonic()
        with self.log.open("w") as journal:
            found = os.fstat(journal.fileno())
            environ = {
                **os.environ,
                "NOTIFY_SOCKET": str(folder / "notify"),
                "WATCHDOG_USEC": str(round(SECONDS * 1e6)),
                "LISTEN_FDS": "1",
                "LISTEN_FDNAMES": "edge-runtime",
                "JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}",
                "EDGE_RUNTIME_ADMITTING_KEYS_FILE": str(folder / "keys.json"),
            }
            self.process = subprocess.Popen(
                [sys.executable, "-c", AS_SYSTEMD],
                env=environ,
                stderr=journal,
                pass_fds=[3],
                preexec_fn=lambda: os.dup2(self.port.fileno(), 3),  # noqa: PLW1509 – as systemd does
            )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while piece := self._ear.recv(4096):
            lines = dict(line.split("=", 1) for line in piece.decode().splitlines())
            self.said.append((time.monotonic(), lines))

    def wait(self, name: str, count: int = 1, seconds: float = 20.0) -> list[float]:
        """When each of the first `count` was said."""
        ends = time.monotonic() + seconds
        while len(times := self.times(name)) < count:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < ends, (name, self.said)
            time.sleep(0.02)
        return times

    def times(self, name: str) -> list[float]:
        return [at for at, lines in self.said if name in lines]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.port.close()
        self._ear.close()


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    try:
        Store().graphs(load_recipe("moonshine-tiny-en"))
    except ModelMissing as missing:
        pytest.skip(str(missing))
    made = Manager(tmp_path_factory.mktemp("systemd"))
    yield made
    made.end()


def test_it_is_ready_once_it_is_warm_and_says_where(manager) -> None:
    (ready,) = manager.wait("READY")
    said = [lines for _, lines in manager.said]
    assert said[0]["STATUS"].startswith("loading moonshine-tiny-en")
    assert int(said[0]["EXTEND_TIMEOUT_USEC"]) == 30_000_000
    (last,) = [lines for lines in said if "READY" in lines]
    assert last["STATUS"] == f"moonshine-tiny-en on cpu at {manager.where}, 0 of 32 sessions"
    # its socket is the one that was handed over, and it is warm: the next request is served
    with urllib.request.urlopen(f"{manager.where}/readyz") as answer:
        assert answer.status == 200
    # the clock is for docs/service.md on a machine that is idle: 4 s at most there
    assert ready - manager.began < 20


def test_idle_it_feeds_the_watchdog(manager) -> None:
    manager.wait("READY")
    before = len(manager.times("WATCHDOG"))
    times = manager.wait("WATCHDOG", before + 3)
    assert max(b - a for a, b in itertools.pairwise(times)) < 15


def test_under_load_it_feeds_the_watchdog_too_and_counts_sessions(manager, clip) -> None:
    manager.wait("READY")
    heard, audio = clip("1088-134315-0002"), manager.log.parent / "clip.wav"
    soundfile.write(audio, heard.audio, heard.rate)
    before = len(manager.times("WATCHDOG"))
    url = f"{manager.where.replace('http', 'ws')}/v1/stream"
    line = [sys.executable, "-m", "edge_runtime", "listen", "--fast", "--url", url]
    listening = [subprocess.Popen([*line, str(audio)], stdout=subprocess.DEVNULL) for _ in "ab"]
    assert [each.wait(60) for each in listening] == [0, 0]
    times = manager.wait("WATCHDOG", before + 2)
    # however many tests share the processors: half of what the unit waits
    assert max(b - a for a, b in itertools.pairwise(times)) < 15
    said = [lines.get("STATUS", "") for _, lines in manager.said]
    assert any(line.endswith((", 1 of 32 sessions", ", 2 of 32 sessions")) for line in said)


def test_a_reload_is_told(manager) -> None:
    manager.wait("READY")
    manager.process.send_signal(signal.SIGHUP)
    manager.wait("RELOADING")
    manager.wait("READY", 2)


def test_threads_that_are_stuck_feed_nothing(manager) -> None:
    """All but the event loop's are stopped, as a driver that does not return would."""
    manager.wait("WATCHDOG")
    stopped = stop_threads(manager.process.pid)
    try:
        time.sleep(0.2)
        before = len(manager.times("WATCHDOG"))
        time.sleep(SECONDS * 0.6)  # twice as long as it takes to the next
        assert len(manager.times("WATCHDOG")) == before
    finally:
        go_on(stopped)
    manager.wait("WATCHDOG", before + 1)


def test_at_sigterm_it_says_that_it_stops_and_the_journal_has_priorities(manager) -> None:
    manager.wait("READY")
    manager.process.send_signal(signal.SIGTERM)
    assert manager.process.wait(15) == 0
    assert manager.times("STOPPING")
    logged = manager.log.read_text().splitlines()
    assert "<6>edge_runtime.server.report: a renewed certificate is taken" in "\n".join(logged)
    assert not [line for line in logged if "INFO" in line]


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes, LIBC.ptrace.restype = [ctypes.c_long] * 4, ctypes.c_long
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000


def stop_threads(pid: int) -> list[int]:
    """Stop every thread of a process but the first."""
    stopped = []
    for thread in (int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()):
        if thread != pid:
            if LIBC.ptrace(SEIZE, thread, 0, 0):
                pytest.skip(f"threads cannot be stopped here: {os.strerror(ctypes.get_errno())}")
            LIBC.ptrace(INTERRUPT, thread, 0, 0)
            os.waitpid(thread, WALL)
            stopped.append(thread)
    return stopped


def go_on(stopped: list[int]) -> None:
    for thread in stopped:
        LIBC.ptrace(DETACH, thread, 0, 0)

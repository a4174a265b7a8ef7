"""Nothing of what is heard is written or sent: files and sockets of a real server, watched."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import io
import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
import soundfile

from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing

CLIP = "1088-134315-0002"
pytestmark = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs Linux's /proc")

# The server, with every event of Python's audit that can write or send, to a pipe.
WATCHED = """
import os, sys
REPORT = int(sys.argv.pop(1))
EVENTS = {
    "open", "os.rename", "os.remove", "os.mkdir", "os.link", "os.symlink", "os.truncate",
    "os.fork", "os.exec", "os.posix_spawn", "os.system", "subprocess.Popen", "tempfile.mkstemp",
    "socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
    "socket.gethostbyname", "urllib.Request",
}
def watch(event, args):
    if event in EVENTS:
        said = [arg if isinstance(arg, int) else str(arg) for arg in args]
        os.write(REPORT, (repr((event, said)) + "\\n").encode())
sys.addaudithook(watch)
from edge_runtime.cli import main
main()
"""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watched:
    """A server process, and what it was seen to do."""

    def __init__(self, folder, port):
        self.url = f"http://127.0.0.1:{port}"
        self._reports, writing = os.pipe()
        os.set_blocking(self._reports, False)
        self._text = b""
        # what would keep a library from reporting home by itself
        silent = {"CI", "ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS"}
        here = {name: value for name, value in os.environ.items() if name not in silent}
        home = {name: str(folder) for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WATCHED, str(writing), "serve", "--port", str(port)],
            pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            cwd=folder,
            env={**here, **home, "EDGE_RUNTIME_STORE": str(Store().root),
                 "EDGE_RUNTIME_ADMITTING_KEYS": "never", "PYTHONDONTWRITEBYTECODE": "1",
                 "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        os.close(writing)
        self._proc = Path("/proc") / str(self.process.pid)

    def close(self):
        self.process.kill()
        self.process.communicate()
        os.close(self._reports)

    def events(self):
        """All that was reported so far; call it often, or the process waits for us."""
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._reports, 1 << 16):
                self._text += piece
        whole, _, _ = self._text.rpartition(b"\n")
        return [ast.literal_eval(line) for line in whole.decode().splitlines()]

    def stored(self):
        """Bytes that its threads, in whatever library, had written to a disk."""
        return int(re.search(r"^write_bytes: (\d+)", (self._proc / "io").read_text(), re.M)[1])

    def open_for_writing(self):
        """Files on disks that are open for writing, or mapped so that others see it."""
        found = []
        for link in (self._proc / "fd").iterdir():
            target = str(link.readlink())
            info = (self._proc / "fdinfo" / link.name).read_text()
            flags = int(re.search(r"^flags:\s*([0-7]+)", info, re.M)[1], 8)
            if target.startswith("/") and not target.startswith("/dev/") and flags & os.O_ACCMODE:
                found.append(target)
        maps = (self._proc / "maps").read_text()
        return found + re.findall(r"^\S+ .w.s .* (/(?!dev/).+)$", maps, re.M)

    def connections(self):
        """(local port, remote port) of every socket of the Internet that it has."""
        own = {
            target[8:-1]
            for link in (self._proc / "fd").iterdir()
            if (target := str(link.readlink())).startswith("socket:[")
        }
        found = []
        for kind in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6"):
            for line in (self._proc / "net" / kind).read_text().splitlines()[1:]:
                _, local, remote, *_, inode = line.split()[:10]
                if inode in own:
                    found.append(tuple(int(end.rpartition(":")[2], 16) for end in (local, remote)))
        return found


@pytest.fixture
async def watched(tmp_path):
    try:
        Store().graphs(load_recipe("moonshine-tiny-en"))
    except ModelMissing as missing:
        pytest.skip(str(missing))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Watched(tmp_path, port)
    try:
        yield server
    finally:
        server.close()


def state(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


async def test_nothing_of_the_audio_is_written_or_sent(watched, read, clip, tmp_path):
    heard = clip(CLIP)
    store = Store().root
    async with aiohttp.ClientSession() as http:
        await ready(http, watched)
        until_ready = watched.events()
        loaded = Counter(event for event, _ in until_ready)
        assert loaded["open"] > 100  # the hook does see
        assert loaded["socket.bind"] == 1
        before, stored = state(store), watched.stored()
        stream = await http.ws_connect(f"{watched.url}/v1/stream")
        resume = {"token": "", "last_seq": 0}  # so that events are kept
        await stream.send_json({"type": "start", "words": True, "resume": resume})
        half = len(heard.pcm) // 2
        await stream.send_bytes(heard.pcm[:half])
        events = await read.until(stream, "partial")
        assert watched.open_for_writing() == []
        port = int(watched.url.rsplit(":", 1)[1])
        there = watched.connections()
        assert len(there) >= 2  # it listens, and we are there
        assert {local for local, _ in there} == {port}
        await stream.send_bytes(heard.pcm[half:])
        await stream.send_json({"type": "stop"})
        rest, _ = await read.rest(stream)
        posted = {"model": "m", "response_format": "text", "file": recording(heard)}
        async with http.post(f"{watched.url}/v1/audio/transcriptions", data=posted) as answer:
            assert len((await answer.text()).split()) >= 5
        async with http.get(f"{watched.url}/metrics") as answer:
            figures = await answer.text()
        assert watched.open_for_writing() == []
        stored_later = watched.stored()
    text = read.text(events + rest)
    done = watched.events()[len(until_ready) :]
    watched.process.terminate()
    _, log = watched.process.communicate(timeout=20)
    assert watched.process.returncode == 0

    wrote = [args for event, args in done if event == "open" and args[2] & WRITES]
    assert wrote == []
    assert [event for event, _ in done if event != "open"] == []
    assert state(store) == before
    assert stored_later == stored
    assert list(tmp_path.iterdir()) == []
    spoken = re.findall(r"[a-z']+", text.lower())
    assert len(spoken) >= 10
    told = " ".join(re.findall(r"[a-z']+", f"{log} {figures}".lower()))
    runs = [" ".join(spoken[at : at + 3]) for at in range(len(spoken) - 2)]
    assert [run for run in runs if f" {run} " in told] == []
    assert "/v1/stream from 127.0.0.1" in log


def recording(heard):
    """The clip as a FLAC file, which the server has to decode."""
    file = io.BytesIO()
    soundfile.write(file, heard.audio, heard.rate, format="FLAC")
    file.seek(0)
    return file


async def ready(http, server):
    began = time.monotonic()
    while True:
        assert server.process.poll() is None, server.process.stderr.read()
        assert time.monotonic() - began < 60
        server.events()
        try:
            async with http.get(f"{server.url}/readyz") as answer:
                if answer.status == 200:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.05)

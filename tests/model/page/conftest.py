"""A server and a browser, each a process of its own, whose microphone is a recording."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import soundfile
import soxr

from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing
from tests.browser import Tab, chromium, launched, tab

ROOT = Path(__file__).parents[3]
SPOKEN = "1867-154075-0005"
"""A clip of this repository: "That's a likely story." and "I can show you the tracks." """

NAME = f"{socket.gethostname().partition('.')[0].lower()}.local"
"""This machine's name at home, by which a page is no secure one."""

WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) =>
  violations.push(event.effectiveDirective), true);
window.heard = [];
window.sockets = [];
WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    sockets.push(this);
  }
};
document.addEventListener("edge-runtime:event", ({ detail }) => heard.push(detail));
"""


class Server:
    """`edge-runtime serve` on a port that stays the same when it is started again."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.keys = folder / "keys.json"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "edge_runtime", "serve", "--port", str(self.port)]
        env = {**os.environ, "EDGE_RUNTIME_ADMITTING_KEYS_FILE": str(self.keys)}
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=env)
        began = time.monotonic()
        while not self._ready():
            assert self._process.poll() is None
            assert time.monotonic() - began < 60
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(30)
            self._process = None

    def kill(self) -> None:
        """As a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False


@pytest.fixture(scope="session", autouse=True)
def _there_is_a_browser():
    if chromium() is None:
        pytest.skip("no Chromium here: tools/chromium installs it (Debian: apt install chromium)")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    try:
        Store().graphs(load_recipe("moonshine-tiny-en"))
    except ModelMissing as missing:
        pytest.skip(str(missing))
    made = Server(tmp_path_factory.mktemp("server"))
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """`clip(path)`: a recording as WAV at 48 kHz, which is what the browser's microphone takes."""

    def convert(path):
        samples, rate = soundfile.read(path, dtype="float32")
        wav = tmp_path_factory.mktemp("clip") / f"{Path(path).stem}.wav"
        soundfile.write(wav, soxr.resample(samples, rate, 48000), 48000, subtype="PCM_16")
        return wav

    return convert


@pytest.fixture(scope="module")
def browse(tmp_path_factory):
    """`browse(wav)`: a browser that hears this recording, once, when it listens; its address."""
    return lambda wav, *flags: launched(
        tmp_path_factory.mktemp("profile"),
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={wav}%noloop",
        f"--host-resolver-rules=MAP {NAME} 127.0.0.1",
        *flags,
    )


@pytest.fixture(scope="module")
def browser(browse, clip):
    with browse(clip(ROOT / "audio" / f"{SPOKEN}.flac")) as address:
        yield address


@pytest.fixture
async def page(browser, server) -> Tab:
    """The page in a new tab, ready."""
    async with tab(browser) as made:
        await made.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        await made.open(f"{server.url}/")
        await made.until("document.getElementById('state').dataset.state === 'ok'")
        yield made


@pytest.fixture(scope="session")
def machine():
    return NAME


@pytest.fixture(scope="session")
def spoken_file():
    return ROOT / "audio" / f"{SPOKEN}.flac"

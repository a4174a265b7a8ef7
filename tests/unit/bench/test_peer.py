"""The peer's side: a scripted adapter stands for the other system."""

import sys
from pathlib import Path

import numpy as np
import pytest

from edge_runtime.bench import peer
from edge_runtime.bench.manifest import Clip
from edge_runtime.errors import ConfigError, EdgeRuntimeError

ADAPTER = """\
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    size = os.path.getsize(request["audio"])
    say = lambda **message: print(json.dumps(message), flush=True)
    say(type="partial", segment=0, text=f"{size} bytes", at=0.5, end=0.4)
    say(type="final", segment=0, text=f"{request['enough']:.2f} s", at=1.5, end=1.4)
    say(type="done", cpu=0.25, peak=1000)
"""


@pytest.fixture
def clip():
    made = Clip("clip", Path("none.wav"), "ONE", "clean")
    made.__dict__["pcm"] = np.full(32000, 0.5, np.float32)
    return made


@pytest.fixture
def adapter(tmp_path, monkeypatch):
    def write(source):
        (tmp_path / "peer-moonshine").write_text(source)
        monkeypatch.setattr(peer, "_TOOLS", tmp_path)

    return write


async def test_what_a_peer_says_becomes_a_take(clip, adapter):
    adapter(ADAPTER)
    async with peer.running("moonshine-voice", Path(sys.executable)) as other:
        for _ in range(2):
            take = await other.play(clip)
            ((at, shown),) = take.partials
            assert (at, shown.unstable, shown.end) == (0.5, "128000 bytes", 0.4)
            assert take.text == "3.00 s"  # 2 s of speech, and a second to close it
            assert (take.cpu, take.extra["peak"], take.seconds) == (0.25, 1000, 2.0)


async def test_an_adapter_that_dies_is_told(clip, adapter):
    adapter("import sys; sys.stdin.readline(); sys.exit(3)")
    async with peer.running("moonshine-voice", Path(sys.executable)) as other:
        with pytest.raises(EdgeRuntimeError, match="ended with code 3"):
            await other.play(clip)


def test_unknown_peers_and_a_missing_checkout_are_told(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="no peer is called x"):
        peer.known("x")
    monkeypatch.setattr(peer, "_TOOLS", tmp_path)
    with pytest.raises(ConfigError, match="Run the bench from a checkout"):
        peer.known("moonshine-voice")

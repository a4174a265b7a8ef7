"""What is compared: a server of our own with one model, or another system's adapter."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Protocol

from edge_runtime.bench import peer, server
from edge_runtime.bench.client import Playing, play_clip
from edge_runtime.bench.manifest import Clip
from edge_runtime.bench.peer import Peer
from edge_runtime.bench.served import Served
from edge_runtime.bench.server import Server
from edge_runtime.bench.take import Take
from edge_runtime.engines.export import PRECISIONS
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ModelMissing


class System(Protocol):
    """One that runs; `said` is in what form."""

    said: str

    async def play(self, clip: Clip, *, paced: bool) -> Take:
        """A clip; the take has its processor time."""

    def memory(self) -> int | None:
        """The most bytes that it had in memory."""

    def disk(self) -> int | None:
        """Bytes of the files that it loaded of its model."""


class Ours:
    """A server of its own, on its defaults but for the model."""

    def __init__(self, model: str, running: Server) -> None:
        self._running = running
        self._served = Served.told(running.health())
        self._recipe = load_recipe(model)
        self.said = f"{self._served.device}, {self._served.precision}"
        if self._served.variant:
            self.said += f", variant {self._served.variant}"

    async def play(self, clip: Clip, *, paced: bool) -> Take:
        """See `System`."""
        before = self._running.cpu()
        take = await play_clip(self._running.url, clip, Playing(paced=paced, partials=paced))
        after = self._running.cpu()
        cpu = None if before is None or after is None else after - before
        return replace(take, cpu=cpu)

    def memory(self) -> int | None:
        """See `System`."""
        return self._running.process.peak() if self._running.process else None

    def disk(self) -> int | None:
        """See `System`; an engine's is not told."""
        store, served = Store(), self._served
        if served.variant:
            folder = store.root / self._recipe.name / served.variant
        elif served.device == "cpu" and served.precision in PRECISIONS:
            folder = store.graphs(self._recipe, served.precision)
        else:
            return None
        return sum(path.stat().st_size for path in folder.iterdir() if path.suffix in _LOADED)


_LOADED = {".onnx", ".npy", ".npz", ".data"}


class Theirs:
    """A peer's adapter."""

    def __init__(self, name: str, running: Peer) -> None:
        self._running = running
        self._extra: dict[str, float] = {}
        self.said = peer.known(name).packages[0].replace("==", " ")

    async def play(self, clip: Clip, *, paced: bool) -> Take:
        """See `System`."""
        take = await self._running.play(clip, paced=paced)
        self._extra = take.extra
        return take

    def memory(self) -> int | None:
        """See `System`."""
        return int(self._extra.get("peak", 0)) or None

    def disk(self) -> int | None:
        """See `System`."""
        return int(self._extra.get("bytes", 0)) or None


@contextlib.asynccontextmanager
async def ours(model: str, options: Sequence[str]) -> AsyncIterator[System]:
    """Our server with that model, as long as the context; `options` are those of `serve`.

    Raises `ModelMissing` or `ModelDamaged`, which name the command, and what `started` raises.
    """
    Store().weights(load_recipe(model))
    with server.started(["--model", model, *options]) as running:
        yield Ours(model, running)


@contextlib.asynccontextmanager
async def theirs(name: str) -> AsyncIterator[System]:
    """A peer that is installed, as long as the context; raises `ModelMissing` with the command."""
    if not peer.installed(name):
        raise ModelMissing(f"{name} is not installed", peer.install(name))
    async with peer.running(name, peer.environment(name)) as running:
        yield Theirs(name, running)

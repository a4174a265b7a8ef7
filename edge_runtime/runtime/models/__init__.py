"""Several models in one server: sessions choose one by name, and one comes or goes meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from edge_runtime.config import Config
from edge_runtime.device import Device
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from edge_runtime.metrics import Metrics
from edge_runtime.runtime import Options, Runtime
from edge_runtime.runtime.canary import Canary
from edge_runtime.runtime.canary import load as active
from edge_runtime.runtime.canary.arm import Watched
from edge_runtime.runtime.commons import Commons
from edge_runtime.runtime.load import Loaded
from edge_runtime.runtime.models.memory import room
from edge_runtime.runtime.models.served import Served
from edge_runtime.runtime.release import let_go
from edge_runtime.runtime.stream import Stream

__all__ = ["Models"]

_log = logging.getLogger(__name__)


class Models:
    """Runtimes by the name of their model, in the place of one: the default.

    Of another than the default there is no candidate on trial. All methods but the constructor
    belong to the event loop's thread.
    """

    def __init__(self, config: Config, store: Store, metrics: Metrics) -> None:
        """Loads all that the settings name, one after the other, which blocks.

        Raises what `Runtime` raises, `MemoryShort`, or `ConfigError` for two of one name.
        """
        self._config, self._store, self._metrics = config, store, metrics
        self._commons = Commons(config, metrics)
        first = Served(active(config, store, metrics, self._commons))
        self._served = {first.name: first}
        self._default = first.name
        self._loading: str | None = None
        self._turn = asyncio.Lock()
        self._leaving: set[asyncio.Task[None]] = set()
        self._serves = False
        for model in config.serving.served[1:]:
            self._free(load_recipe(model).name)
            served = Served(self._loaded(model))
            self._served[served.name] = served

    # -- what a server asks of the default, in whose place this is

    @property
    def _first(self) -> Runtime | Canary:
        return self._served[self._default].runtime

    @property
    def model(self) -> str:
        """The name of the default."""
        return self._default

    @property
    def languages(self) -> Sequence[str]:
        """What it understands, by ISO 639-1 codes."""
        return self._first.languages

    @property
    def tasks(self) -> Sequence[str]:
        """What it makes of speech: "transcribe", and "translate" where it can."""
        return self._first.tasks

    @property
    def device(self) -> Device:
        """What it runs on now."""
        return self._first.device

    @property
    def fallback(self) -> str | None:
        """Which devices failed before that one, why, and what helps."""
        return self._first.fallback

    @property
    def lost(self) -> str | None:
        """Why nothing is decoded any more by it."""
        return self._first.lost

    @property
    def about(self) -> dict[str, Any]:
        """In what form it serves, and how all models stand."""
        return {**self._first.about, "models": self.told, "loading": self._loading}

    @property
    def told(self) -> list[dict[str, Any]]:
        """Each model for people and programs, the default first."""
        first = [self._served[self._default]]
        others = [each for each in self._served.values() if each is not first[0]]
        return [each.told(default=each is first[0]) for each in first + others]

    @property
    def models(self) -> Mapping[str, Runtime | Canary]:
        """Those that take sessions, the default first."""
        names = (self._default, *self._served)
        return {name: self._served[name].runtime for name in names if self._served[name].open}

    @property
    def sessions(self) -> int:
        """Streams that are open, of all models."""
        return sum(each.sessions for each in self._served.values())

    def open(self, options: Options | None = None) -> Stream | Watched:
        """A new stream of the default; raises as `Runtime.open`."""
        return self._first.open(options)

    async def prove(self) -> None:
        """As `Runtime.prove`, of all models."""
        await asyncio.gather(*(each.runtime.prove() for each in list(self._served.values())))

    async def leave(self, why: str) -> None:
        """As `Runtime.leave`, of all models."""
        await asyncio.gather(*(each.runtime.leave(why) for each in list(self._served.values())))

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Models]:
        """Run all; raises what the first raises that cannot."""
        async with contextlib.AsyncExitStack() as all_of_them:
            for each in list(self._served.values()):
                await each.start()
                all_of_them.push_async_callback(each.stop)
            self._serves = True
            try:
                yield self
            finally:
                self._serves = False
                for task in self._leaving:  # for sessions that are cut off now
                    task.cancel()
                await asyncio.gather(*self._leaving, return_exceptions=True)
                for each in list(self._served.values()):
                    await each.stop()

    # -- models that come and go

    async def load(self, model: str | Path, *, default: bool = False) -> None:
        """Serve one more, which is loaded beside the others; `default`: for who names none, too.

        One that is served already is only made the default. Raises `ConfigError` where there is
        nothing to do, `MemoryShort`, and what `Runtime` raises; then all is as it was.
        """
        name = load_recipe(model).name
        async with self._turn:
            known = self._served.get(name)
            if known is None:
                await self._bring(name, model)
            elif not (default and known.open) or name == self._default:
                self._free(name)
            if default:
                _log.info("%s is the default now, before it was %s", name, self._default)
                self._default = name

    async def unload(self, name: str) -> None:
        """Let go of one, once its sessions are over; it gets no new ones meanwhile.

        Raises `ConfigError` for one that is not served, for the default, and for one on trial.
        """
        served = self._served.get(name)
        if served is None:
            raise ConfigError(f"{name[:80]!r} is not served", f"Served: {', '.join(self._served)}.")
        if name == self._default:
            raise ConfigError(
                f"{name} is the default, which sessions get that name no model",
                "Make another one the default first: edge-runtime models load OTHER --default",
            )
        runtime = served.runtime
        if isinstance(runtime, Canary):
            raise ConfigError(
                f"{name} has a candidate on trial beside it",
                "Restart the server without --canary and without the model.",
            )
        if served.open:
            served.open = False
            _log.info("%s is unloaded once its %d sessions are over", name, served.sessions)
            task = asyncio.create_task(self._leave(served, runtime))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
            served.leaving = task
        assert served.leaving is not None
        await asyncio.wait({served.leaving})
        if not served.leaving.cancelled():
            served.leaving.result()

    async def _bring(self, name: str, model: str | Path) -> None:
        self._loading, began = name, time.monotonic()
        _log.info("loading %s beside %s", name, ", ".join(self._served))
        try:
            served = Served(await asyncio.to_thread(self._loaded, model))
            await served.start()
            if not self._serves:
                await served.stop()
                raise ConfigError("the server ends", "Start it again.")
            self._served[name] = served
        except EdgeRuntimeError as error:
            _log.error("%s is not served: %s", name, error)
            raise
        finally:
            self._loading = None
        seconds = time.monotonic() - began
        _log.info("%s serves on %s, after %.1f s", name, served.runtime.device.name, seconds)

    async def _leave(self, served: Served, runtime: Runtime) -> None:
        await runtime.idle()
        await served.stop()
        del self._served[served.name]
        await let_go(runtime)
        _log.info("%s is not in memory any more", served.name)

    def _free(self, name: str) -> None:
        if name in self._served:
            leaves = "" if self._served[name].open else ", and waits for its last sessions to end"
            raise ConfigError(f"{name} is served already{leaves}", "See edge-runtime models list.")

    def _loaded(self, model: str | Path) -> Runtime:
        """One more runtime, where there is memory for it; blocks."""
        config, computing = self._config, self._config.computing
        steady, *others = self._all_loaded
        need = room(self._store, model, config, steady, others)
        need.check(load_recipe(model).name)
        if need.cap:  # what is left of it: each model has a budget of its own
            left = max(1, (need.free or 0) >> 20)
            computing = msgspec.structs.replace(computing, memory_mb=left)
            config = msgspec.structs.replace(config, computing=computing)
        return Runtime(
            config, model, store=self._store, metrics=self._metrics, commons=self._commons
        )

    @property
    def _all_loaded(self) -> list[Loaded]:
        """What is in memory, the default first; a model on trial is not looked at."""
        first = self._served[self._default]
        rest = [each for each in self._served.values() if each is not first]
        return [each.loaded for each in [first, *rest]]

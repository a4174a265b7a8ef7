"""A newly calibrated model on trial beside the active one, until it differs too much."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from edge_runtime.config import Config
from edge_runtime.device import Device
from edge_runtime.engines import variants
from edge_runtime.engines.recipe import TiledRecipe, load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.engines.variant import Variant, command
from edge_runtime.errors import DeviceError, EdgeRuntimeError, ModelMissing
from edge_runtime.metrics import Metrics
from edge_runtime.runtime import Options, Runtime
from edge_runtime.runtime.canary.arm import Arm, Watched
from edge_runtime.runtime.canary.breach import breach
from edge_runtime.runtime.commons import Commons
from edge_runtime.runtime.load import Loaded
from edge_runtime.runtime.release import let_go

__all__ = ["Canary", "load"]

_log = logging.getLogger(__name__)

_RELEASE = "release"


def load(
    config: Config, store: Store, metrics: Metrics, commons: Commons | None = None
) -> Runtime | Canary:
    """What a server runs: the active model, and beside it the candidate where that is asked for.

    A candidate that cannot be tried costs a warning and no more. `commons` is what both share with
    other models. Raises what `Runtime` raises.
    """
    if not config.canary.share:
        return Runtime(config, store=store, metrics=metrics, commons=commons)
    active = Arm(config, store, metrics, commons=commons)
    try:
        return Canary(config, store, active, _trial(config, store, metrics, active))
    except EdgeRuntimeError as error:
        _log.warning("no candidate is tried: %s", error)
        return Canary(config, store, active, None, str(error))


def _trial(config: Config, store: Store, metrics: Metrics, active: Arm) -> Arm:
    """The candidate on the device of the active model; raises where there is none such."""
    steady = active.runtime.loaded
    trial = Arm(config, store, metrics, _candidate(config, store))
    loaded = trial.runtime.loaded
    if loaded.kind != steady.kind:
        why = f"the candidate runs on {loaded.kind}, the active model on {steady.kind}"
        fix = loaded.fallback or "Name one device by --device."
    elif config.computing.memory_mb and not loaded.on_cpu:
        why = "computing.memory_mb caps what one model takes, and there would be two"
        fix = "Leave memory_mb out as long as a candidate is tried."
    else:
        return trial
    loaded.device.close()
    raise DeviceError(why, fix)


def _candidate(config: Config, store: Store) -> Variant:
    recipe = load_recipe(config.serving.model)
    found = variants.candidate(store, recipe) if isinstance(recipe, TiledRecipe) else None
    if found is None:
        raise ModelMissing(
            f"there is no candidate of {recipe.name}", f"Run: {command(recipe.name)}"
        )
    return found


class Canary:
    """Two runtimes in the place of one: a share of new sessions goes to the candidate.

    Where that breaks a limit, it gets no new ones, and the store says why; sessions that it has
    go on, and with the last of them it is let go. Without a candidate all is as with one runtime;
    `ended` then says why there is none.
    """

    def __init__(
        self, config: Config, store: Store, active: Arm, trial: Arm | None, ended: str | None = None
    ) -> None:
        self.ended = ended
        self.rejected = False
        self._limits, self._store = config.canary, store
        self._active, self._trial = active, trial
        self._sessions = 0
        self._tried = None if trial is None else _Tried(trial)
        self._running = contextlib.AsyncExitStack()
        self._chores: list[asyncio.Task[None]] = []
        if trial is not None:
            active.runtime.lend(1 - self._limits.share)
            trial.runtime.lend(self._limits.share)
            trial.runtime.follow(active.runtime)

    @property
    def model(self) -> str:
        """Its name."""
        return self._active.runtime.model

    @property
    def models(self) -> Mapping[str, Canary]:
        """All that a session may choose: the share is not left to it."""
        return {self.model: self}

    @property
    def languages(self) -> tuple[str, ...]:
        """What it understands, by ISO 639-1 codes."""
        return self._active.runtime.languages

    @property
    def tasks(self) -> tuple[str, ...]:
        """What it makes of speech: "transcribe", and "translate" where it can."""
        return self._active.runtime.tasks

    @property
    def loaded(self) -> Loaded:
        """The active model, on the device that is used now."""
        return self._active.runtime.loaded

    @property
    def sessions(self) -> int:
        """Streams that are open, of both."""
        trial = 0 if self._trial is None else self._trial.runtime.sessions
        return self._active.runtime.sessions + trial

    @property
    def device(self) -> Device:
        """The device of the active model."""
        return self._active.runtime.device

    @property
    def fallback(self) -> str | None:
        """Which devices failed before this one, why, and what helps."""
        return self._active.runtime.fallback

    @property
    def lost(self) -> str | None:
        """Why nothing is decoded any more by the active model."""
        return self._active.runtime.lost

    @property
    def about(self) -> dict[str, Any]:
        """What serves, and how the trial stands."""
        tried = self._tried
        return {
            **self._active.runtime.about,
            "canary": {
                "variant": None if tried is None else tried.name,
                "forced": tried is not None and tried.forced,
                "share": self._limits.share,
                "ended": self.ended,
                "rejected": self.rejected,
                "active": self._active.counts.told(),
                "candidate": None if tried is None else tried.counts.told(),
            },
        }

    def open(self, options: Options | None = None) -> Watched:
        """A new stream of one of the two; raises as `Runtime.open`."""
        self._look()
        if self._trial is None or self.ended is not None:
            return self._active.open(options, self._look)
        self._sessions += 1
        return (self._trial if self._due() else self._active).open(options, self._look)

    async def prove(self) -> None:
        """As `Runtime.prove`, of all that serves."""
        await self._active.runtime.prove()
        self._look()
        if self._trial is not None and self.ended is None:
            await self._trial.runtime.prove()

    async def leave(self, why: str) -> None:
        """As `Runtime.leave`, of both."""
        for arm in (self._active, self._trial):
            if arm is not None:
                await arm.runtime.leave(why)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Canary]:
        """Run both; raises what the active one raises."""
        async with contextlib.AsyncExitStack() as both:
            await both.enter_async_context(self._active.runtime.serving())
            self._running = await both.enter_async_context(contextlib.AsyncExitStack())
            if self._trial is not None:
                try:
                    await self._running.enter_async_context(self._trial.runtime.serving())
                except EdgeRuntimeError as error:
                    self._end(f"the candidate does not run: {error}")
            try:
                yield self
            finally:
                for chore in self._chores:
                    if chore.get_name() == _RELEASE:  # of sessions that are cut off now
                        chore.cancel()
                await asyncio.gather(*self._chores, return_exceptions=True)
                self._chores.clear()

    def _due(self) -> bool:
        """Whether the latest session is one of the share: by count, so evenly and not by chance."""
        before, now = (
            int(count * self._limits.share + 1e-9) for count in (self._sessions - 1, self._sessions)
        )
        return now > before

    def _look(self) -> None:
        """End the trial where the two cannot be compared any more, or a limit is broken."""
        if self._trial is None or self.ended is not None:
            return
        active, trial = self._active.runtime.loaded, self._trial.runtime.loaded
        if lost := self._trial.runtime.lost:
            self._reject(f"its device was lost: {lost}")
        elif active.kind != trial.kind:
            self._end(f"the candidate runs on {trial.kind} now, the active model on {active.kind}")
        elif why := breach(self._active.counts, self._trial.counts, self._limits):
            self._reject(why)

    def _end(self, why: str) -> None:
        self.ended = why
        _log.critical("the trial of %s %s is over: %s", self.model, self._name, why)
        if self._trial is not None and not self._trial.runtime.lost:
            # A lost device is kept for good: see `Decoder`.
            self._chores.append(asyncio.create_task(self._release(self._trial), name=_RELEASE))

    async def _release(self, trial: Arm) -> None:
        """Let go of the candidate once nobody is served by it: its memory is wanted elsewhere."""
        await trial.runtime.idle()
        await self._running.aclose()
        await let_go(trial.runtime)
        self._trial = None
        _log.warning("the candidate %s is not in memory any more", self._name)

    def _reject(self, why: str) -> None:
        self.rejected = True
        self._end(why)
        self._chores.append(asyncio.create_task(self._mark(why)))

    async def _mark(self, why: str) -> None:
        """Keep it from the next trial, too."""
        try:
            await asyncio.to_thread(variants.reject, self._store, self.model, self._name, why)
        except EdgeRuntimeError as error:
            _log.error("the store does not know that the candidate was rejected: %s", error)

    @property
    def _name(self) -> str:
        return "" if self._tried is None else self._tried.name


class _Tried:
    """What is told of a candidate, also when it is gone."""

    def __init__(self, trial: Arm) -> None:
        self.name = trial.name
        self.forced = trial.runtime.loaded.served.forced
        self.counts = trial.counts

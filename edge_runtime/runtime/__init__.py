"""The running system: sessions, the voice detector's worker and the engine, tied together."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path
from typing import Any

from edge_runtime.audio import RATE
from edge_runtime.config import Config, unset
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Hypothesis
from edge_runtime.device import Device
from edge_runtime.engines.plans import ROWS
from edge_runtime.engines.store import Store
from edge_runtime.engines.variant import Variant
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.events import Warning as WarningEvent
from edge_runtime.metrics import Metrics, RuntimeMetrics
from edge_runtime.runtime.commons import Commons, Urgency
from edge_runtime.runtime.decoder import Decoder
from edge_runtime.runtime.engine import Batch, Task
from edge_runtime.runtime.hearing import Hearing
from edge_runtime.runtime.load import Loaded, Loader
from edge_runtime.runtime.stream import Stream
from edge_runtime.runtime.streams import Streams
from edge_runtime.runtime.tracing import Tracer, open_tracer
from edge_runtime.session import Options, longest, shortest

__all__ = ["Options", "Runtime", "Stream"]

TYPICAL = 81 * RATE // 10
"""Samples of a row: a lane has memory for a batch of such ones."""

TURN = 0.0005
"""Seconds of a thread's turn: the event loop must not wait long for a lane in Python."""


class Runtime:
    """One model on one device, serving many streams.

    Loading blocks; `serving` runs the threads; `open` gives a stream.
    """

    def __init__(
        self,
        config: Config,
        model: str | Path | None = None,
        device: str | None = None,
        *,
        store: Store | None = None,
        metrics: RuntimeMetrics | None = None,
        trial: Variant | None = None,
        tracer: Tracer | None = None,
        commons: Commons | None = None,
    ) -> None:
        """Of the active model, or of the variant on `trial`; `tracer` is told what takes time.

        Without one that is the collector that settings or variables name, or nobody. `commons` is
        what it shares with other runtimes of this process.

        Raises what `load` raises: a missing or damaged model, an unusable device.
        """
        self.config = config
        self.metrics: RuntimeMetrics = metrics or Metrics()
        size = _size(config)
        loader = Loader(
            model or config.serving.model,
            device or config.serving.device,
            size,
            least=Size(1, shortest(config)),
            computing=config.computing,
            store=store,
            trial=trial,
        )
        self._tracer: Tracer = tracer or open_tracer(config.telemetry, self._described)
        self._decoder = Decoder(loader, config, self.metrics, self._tracer)
        self._share(commons or Commons(config, self.metrics))
        served = self.loaded.served
        served.suited(config)  # what is wrong with it is said before there is a session
        served.tell(config)
        self._streams = Streams(self._decoder, config, self.metrics, self._tracer, self._stir)
        self._turns = self._streams.turns
        self._later: asyncio.TimerHandle | None = None
        self._hearing: Hearing | None = None

    @property
    def loaded(self) -> Loaded:
        """The model, on the device that is used now."""
        return self._decoder.loaded

    @property
    def model(self) -> str:
        """Its name."""
        return self.loaded.name

    @property
    def models(self) -> Mapping[str, Runtime]:
        """All that a session may choose: this one."""
        return {self.model: self}

    @property
    def languages(self) -> tuple[str, ...]:
        """What it understands, by ISO 639-1 codes."""
        return self.loaded.languages

    @property
    def tasks(self) -> tuple[str, ...]:
        """What it makes of speech: "transcribe", and "translate" where it can."""
        return self.loaded.model.tasks

    @property
    def device(self) -> Device:
        """The device that is used now."""
        return self.loaded.device

    @property
    def fallback(self) -> str | None:
        """Which devices failed before this one, why, and what helps."""
        return self.loaded.fallback

    @property
    def lost(self) -> str | None:
        """Why nothing is decoded any more: the last device is lost."""
        return str(self._decoder.dead) if self._decoder.dead else None

    @property
    def about(self) -> dict[str, Any]:
        """In what form the model serves: see `Served`."""
        served = self.loaded.served
        return {
            "precision": served.precision,
            "variant": served.variant,
            "forced": served.forced,
            "settings": unset(self.config, served.settings),
            "variant_unused": served.unused,
            "canary": None,
            "power": self._governor.about,
            "load": self._crowd.about,
            "retry": self._decoder.standby.about,
        }

    def _described(self) -> dict[str, str]:
        """What serves now, as traces name it."""
        served = self.loaded.served
        return {
            "model": self.model,
            "precision": served.precision,
            "variant": served.variant or "",
            "device": self.device.name,
        }

    def lend(self, share: float) -> None:
        """Use that part of the device's lanes from the next `serving` on, one at least."""
        self._decoder.share = share

    def follow(self, other: Runtime) -> None:
        """Share heat, speakers and cores with `other`, on the same board."""
        self._share(other._commons)

    def _share(self, commons: Commons) -> None:
        self._commons, self._governor, self._crowd = commons, commons.governor, commons.crowd

    def forget(self) -> None:
        """Let go of the model and of all memory, for good, once it does not serve any more.

        Who holds on to a stream that is over then keeps nothing large.
        """
        self._decoder.forget()
        self._streams.forget()
        del self._turns

    # -- sessions

    def open(self, options: Options | None = None) -> Stream:
        """A new stream, while it serves; its memory comes with its first audio.

        Raises `LanguageError` for one that the model does not know, and `ServerFull` when there are
        as many as the configuration allows, or when those who speak already are more than the
        device keeps up with. Where memory runs out later, reading the stream raises it.
        """
        if self._hearing is None:
            raise EdgeRuntimeError(
                "a stream was opened, and nothing runs that could hear it",
                "Open streams inside `async with runtime.serving()`.",
            )
        return self._streams.open(options or Options(), self._commons)

    @property
    def sessions(self) -> int:
        """Streams that are open."""
        return len(self.streams)

    async def idle(self) -> None:
        """Wait, while it serves, until no stream is open."""
        await self._streams.idle()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Runtime]:
        """Run the lanes and the audio worker; leaving ends them, open streams are cut off.

        Raises what the last device raises that may be used, when there is no room for lanes.
        """
        sys.setswitchinterval(TURN)
        await self._decoder.start(
            self._delivered,
            self._ending,
            self._freed,
            self._streams.given_back,
            self._changed,
            self._keeps_warm,
            self._moved,
        )
        streams = self._streams
        streams.begin()
        hearing = self._hearing = Hearing(
            streams.ears, streams.by_name, self._settle, streams.give_up, self._tracer
        )
        try:
            with self._commons.shared(self):
                async with hearing.running():
                    try:
                        yield self
                    finally:
                        self._hearing = None
        finally:
            await self._decoder.stop()
            streams.cut_off()
            await asyncio.to_thread(self._tracer.flush)

    async def prove(self) -> None:
        """Return once all that computes has come through with something, while it serves.

        That is the voice detector's worker and every lane; where one is stuck or has ended, it
        does not return.
        """
        if self._hearing is not None:
            await self._hearing.prove()
        await self._decoder.prove()

    async def leave(self, why: str) -> None:
        """Give up the lanes that there are, which hang; returns once others do their work."""
        await self._decoder.leave(why)

    # -- after each batch that was heard

    def _stir(self) -> None:
        """There is something new to hear, or something was asked for."""
        if self._hearing is not None:
            self._hearing.stir()

    def _settle(self, heard: Collection[Stream], took: float) -> None:
        """Look what those heard in a batch, and those who asked for something, want by now."""
        self._streams.settle(heard)
        if heard:
            self._commons.crowd.judged(took)
        self._commons.give_way()
        self._commons.dispatch()

    def pace(self, hop: float) -> None:
        """Let partials come `hop` times as seldom."""
        self._streams.pace(hop)

    # -- decoding

    def dispatch(self) -> None:
        """Give idle lanes the most urgent updates: finals first, then the longest not served.

        Segments of recordings wait their turn among partials, and while somebody speaks, one
        lane of several is never theirs.
        """
        commons = self._commons
        until = self._turns.give(
            len(self.flying) + commons.left(self),
            self._governor.limits.most(self._decoder.size.rows),
            commons.recordings(self),
        )
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if until is not None:
            wait = max(0.0, until - time.perf_counter())
            self._later = asyncio.get_running_loop().call_later(wait, commons.dispatch)

    def urgency(self) -> Urgency | None:
        """Of what waits most urgently; None where nothing does."""
        return self._turns.urgency

    @property
    def streams(self) -> Collection[Stream]:
        """Those that are open."""
        return self._streams.by_name.values()

    @property
    def free(self) -> int:
        """Lanes that wait for a task."""
        return self._decoder.idle

    @property
    def flying(self) -> Collection[Batch]:
        """The batches that lanes are at."""
        return self._decoder.flying

    @property
    def cores(self) -> int:
        """Cores that its lanes share with those of other models; none on a GPU."""
        return self.loaded.device.lanes if self.loaded.on_cpu else 0

    def _keeps_warm(self) -> bool:
        """Whether there is anybody to be quick for, and no heat to spare."""
        return bool(self.streams) and not self._governor.limits.level

    def _changed(self) -> None:
        """The lanes are others: what was given to those before is wanted again."""
        self._turns.open()
        self._commons.dispatch()

    def _ending(self, batch: Batch) -> None:
        self._turns.ending(batch)
        self._commons.dispatch()

    def _freed(self, batch: Batch) -> None:
        self._turns.freed(batch)
        self._commons.dispatch()

    def _delivered(self, task: Task, result: Hypothesis | EdgeRuntimeError) -> None:
        if isinstance(result, Hypothesis):
            self._crowd.spent(task.owner, result)
        self._streams.delivered(task, result)
        if self._turns.changed:
            self._commons.dispatch()

    def _moved(self, said: str) -> None:
        """Everybody is told that another device works for them."""
        self._streams.tell(WarningEvent(code="device_changed", message=f"{said}."))


def _size(config: Config) -> Size:
    """The largest batch that is wanted: where a device gains nothing from more, it takes one row.

    All rows together are as long as so many of typical length.
    """
    rows, samples = config.computing.batch or ROWS, longest(config)
    return Size(rows, samples, max(samples, rows * TYPICAL))

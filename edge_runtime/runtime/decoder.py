"""Updates in, hypotheses out: lanes on the best device there is, on the next if it fails."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace

from edge_runtime.config import Config
from edge_runtime.decode.costs import Costs
from edge_runtime.decode.family import AnyRunner
from edge_runtime.decode.proof import steady
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.update import Hypothesis
from edge_runtime.errors import DeviceLost, EdgeRuntimeError
from edge_runtime.metrics import RuntimeMetrics
from edge_runtime.runtime.engine import Batch, Delivery, Engine, Recalled, Rest, Result, Task
from edge_runtime.runtime.lanes import warm_lanes
from edge_runtime.runtime.load import Loaded, Loader
from edge_runtime.runtime.meter import Meter
from edge_runtime.runtime.standby import Standby
from edge_runtime.runtime.tracing import Tracer

_log = logging.getLogger(__name__)
_LOOK = 0.05  # s between looks whether lanes have come through
_MOVE = 300.0  # s that a change to another device may take: a GPU's library compiles for minutes


class Decoder:
    """All methods belong to the event loop's thread, and so does what is called back."""

    def __init__(
        self, loader: Loader, config: Config, metrics: RuntimeMetrics, tracer: Tracer
    ) -> None:
        """Loads the model, which blocks; raises what `Loader.load` raises."""
        self.loaded: Loaded = loader.load()
        self.size = self.loaded.size
        """The largest batch of a lane."""
        self.costs = Costs()
        """What batches cost there."""
        self.slots = 0
        """Streams whose state there is memory for, where the model keeps any."""
        self.idle = 0
        """Lanes that wait for a task."""
        self.share = 1.0
        """Part of the device's lanes that are used, one at least; `start` goes by it."""
        self._loader = loader
        self._computing = config.computing
        self._serving = config.serving
        self._metrics = metrics
        self._tracer = tracer
        self._engine: Engine | None = None
        self._flying: dict[int, tuple[Batch, Task]] = {}
        self._working: dict[int, Batch] = {}
        self._ending: dict[int, Batch] = {}
        self._came: deque[tuple[Engine | None, Task, Result]] = deque()
        self._moving: asyncio.Task[None] | None = None
        self._moved = 0.0
        self._lost: list[object] = []
        self.standby = Standby(config.recovering, metrics.device, self._proven, self._return)
        self._told: tuple[str, ...] | None = None
        self.dead: EdgeRuntimeError | None = None
        """Why nothing is decoded any more."""

    async def start(
        self,
        done: Callable[[Task, Hypothesis | EdgeRuntimeError], None],
        ending: Callable[[Batch], None],
        freed: Callable[[Batch], None],
        back: Callable[[Task, tuple[int, ...]], None],
        changed: Callable[[], None],
        wanted: Callable[[], bool],
        told: Callable[[str], None],
    ) -> None:
        """Make and warm the lanes.

        `done` gets a task with what came of it; `ending` a batch whose lane may be given another
        one; `freed` a batch whose lane is through with it; `back` a task that a lost or recalled
        lane never finished, to be submitted anew, and the draft with which it goes on; `changed` is
        called once there are other lanes; `wanted` says whether there is anybody to be quick for;
        `told` gets what everybody should know of a change.
        Raises what the last device raises that may be used.
        """
        self._done, self._soon, self._freed, self._back = done, ending, freed, back
        self._changed, self._wanted, self._say = changed, wanted, told
        self.dead = None
        await self._open()

    async def stop(self) -> None:
        """Finish what is running and end the lanes."""
        self.standby.drop()
        if self._moving is not None:
            await asyncio.gather(self._moving, return_exceptions=True)
        if self._engine is not None:
            await asyncio.to_thread(self._engine.stop)
            self._engine = None
        self.idle = 0

    def forget(self) -> None:
        """Let go of the model, for good, once the lanes have ended."""
        del self.loaded, self._loader
        self.__dict__.pop("_meter", None)

    @property
    def lanes(self) -> int:
        """Lanes that there are, idle or at work."""
        return self.idle + len(self._working)

    @property
    def flying(self) -> list[Batch]:
        """The batches that lanes are at, but for those that are ending."""
        return list(self._working.values())

    def submit(self, batch: Batch) -> None:
        """Run a batch on an idle lane."""
        self.idle -= 1
        self._working[id(batch)] = batch
        self._flying.update((id(task), (batch, task)) for task in batch.tasks)
        if self._engine is not None:
            self._engine.submit(batch)
        else:
            assert self.dead is not None, "no lane is idle while the device changes"
            results = [(task, self.dead) for task in batch.tasks]
            delivery = Delivery(batch, results, free=True)
            asyncio.get_running_loop().call_soon(self._delivered, None, delivery)

    async def prove(self) -> None:
        """Return once every lane has come through with something, work or a little silence.

        It does not return while one is stuck, nor where nothing is decoded any more. A change to
        another device is taken for work, for a while.
        """
        engine = self._engine
        since = () if engine is None else engine.through
        while self.dead or engine is None or not engine.proven(since):
            if self._moving is not None and time.monotonic() - self._moved < _MOVE:
                return
            await asyncio.sleep(_LOOK)
            if engine is not self._engine:
                engine = self._engine
                since = () if engine is None else engine.through

    # -- lanes

    async def _open(self) -> None:
        """Lanes on the device that is loaded, or on the first of the following that has room."""
        self.loaded, runners = await asyncio.to_thread(
            self._loader.made, self.loaded, self._runners
        )
        self._begin(runners)

    def _begin(self, runners: list[AnyRunner]) -> None:
        """Work on these lanes, of the device that is loaded."""
        first = runners[0]
        self.size = first.size
        self.slots = len(first.slots)
        self.costs = first.costs if isinstance(first, Runner) else Costs()
        loop = asyncio.get_running_loop()
        self._tell()
        self._meter = Meter(self._metrics, self.loaded, runners)

        def deliver(delivery: Delivery) -> None:
            loop.call_soon_threadsafe(self._delivered, engine, delivery)

        engine = self._engine = Engine(runners, deliver, self._rest())
        engine.start()
        self.idle = engine.lanes

    def _tell(self) -> None:
        """Say in the figures what serves from now on."""
        self._metrics.device.fallback(self.loaded.fallback is not None)
        before, self._told = self._told, self.loaded.served.labels(self.loaded.name)
        self._metrics.device.serves(self._told, before)

    def _runners(self, loaded: Loaded) -> list[AnyRunner]:
        """Warm lanes, which know what batches cost on them."""
        return warm_lanes(loaded, self._serving, self._tracer, self.share)

    def _rest(self) -> Rest | None:
        """How lanes keep warm: a CPU needs not, it serves others meanwhile."""
        seconds = self._computing.keep_warm_ms / 1000
        if not seconds or self.loaded.on_cpu:
            return None
        return Rest(seconds, self._wanted)

    # -- results

    def _delivered(self, engine: Engine | None, delivery: Delivery) -> None:
        """Free the lane first: it works on while the results are taken in, one by one."""
        if engine is not self._engine:
            return  # of a device that was left: the tasks were given back then
        lost = [each for _, each in delivery.results if isinstance(each, DeviceLost)]
        error = delivery.error or next(iter(lost), None)
        if error is not None and engine is not None:
            self._lose(engine, error)
            return
        assert delivery.batch is not None, "only of a lost device something is said without one"
        self._came += ((engine, task, result) for task, result in delivery.results)
        if delivery.free:
            self._free(delivery.batch)
        elif delivery.ending:
            self._end(delivery.batch)
        loop = asyncio.get_running_loop()
        for _ in delivery.results[1:]:
            loop.call_soon(self._take_in)
        if delivery.results:
            self._take_in()
        # Last of all: nobody waits for ever where counting fails.
        if delivery.free:
            self._meter.look()

    def _end(self, batch: Batch) -> None:
        self._ending[id(batch)] = self._working.pop(id(batch))
        self.idle += 1
        self._soon(batch)

    def _free(self, batch: Batch) -> None:
        if self._ending.pop(id(batch), None) is None:
            del self._working[id(batch)]
            self.idle += 1
        self._freed(batch)

    def _take_in(self) -> None:
        """The oldest result that nobody has seen yet; others have their turns between."""
        engine, task, result = self._came.popleft()
        if engine is not self._engine:
            return
        del self._flying[id(task)]
        if isinstance(result, Recalled):
            self._back(task, result.draft)
            return
        self._done(task, result)
        if isinstance(result, Hypothesis):
            self.standby.worked()
            self._meter.update(result)
        elif engine is not None and self.standby.failed(task.update.session, result):
            self._set_aside(engine, result)

    # -- another device

    def _lose(self, engine: Engine, error: DeviceLost) -> None:
        """Leave a device for good."""
        _log.critical("%s is lost: %s", self.loaded.device.name, error)
        # Kept for good: libraries call the device as they let go of it, which may end the process.
        self._lost += [self.loaded, self._meter, self.standby.drop()]
        self._retire(engine, asyncio.to_thread(self._loader.following, self.loaded, error), error)

    def _set_aside(self, engine: Engine, error: EdgeRuntimeError) -> None:
        """Leave a device that keeps failing, while there is another one, and try it by and by."""
        name = self.loaded.device.name
        if self._loader.next is None:
            _log.critical("%s keeps failing, and no other device may be used: %s", name, error)
            return
        _log.critical("%s keeps failing: %s", name, error)
        self.standby.keep(self.loaded)
        self._retire(engine, self._beside(self.loaded, error), error)

    async def leave(self, why: str) -> None:
        """Give up lanes that hang; returns once others run what they had in hand."""
        if self._engine is not None:
            self.standby.drop()
            self._lost += [self.loaded, self._meter]
            error = DeviceLost(why, "Restart the machine where it comes again.")
            self._retire(self._engine, self._beside(self.loaded, error), error)
        if self._moving is not None:
            await asyncio.wait({self._moving})

    async def _beside(self, kept: Loaded, error: EdgeRuntimeError) -> Loaded:
        """The next device beside the one that is kept; that one still, if no other can be used."""
        try:
            loaded = await asyncio.to_thread(self._loader.beside, error)
        except EdgeRuntimeError as other:
            _log.critical("nothing but %s can be used: %s", kept.device.name, other)
            self.standby.take(kept)
            return kept
        # Segments are cut to what both take: sessions go back.
        return replace(loaded, size=min(kept.size, loaded.size, key=lambda each: each.samples))

    def _retire(
        self, engine: Engine, following: Awaitable[Loaded], error: EdgeRuntimeError
    ) -> None:
        """Give these lanes nothing more; go on with those of the device that follows."""
        self._moving = asyncio.create_task(self._move(following, error))
        self._moved = time.monotonic()
        self._empty(engine)

    def _empty(self, engine: Engine) -> None:
        """Let the lanes end: whatever was given to them goes back."""
        lost = [task for _, task in self._flying.values()]
        working = [*self._ending.values(), *self._working.values()]
        self._flying.clear()
        self._ending.clear()
        self._working.clear()
        self._engine = None
        self.idle = 0
        engine.dismiss()
        for batch in working:
            self._freed(batch)
        for each in lost:
            self._back(each, ())

    async def _move(self, following: Awaitable[Loaded], error: EdgeRuntimeError) -> None:
        left = self.loaded.device.name
        try:
            self.loaded = await following
            await self._open()
            self._metrics.device.moved("away")
            _log.warning("decoding goes on: %s", self.loaded.fallback)
            self._say(f"{left} failed: {self.loaded.device.name} is used from now on")
        except Exception as last:  # noqa: BLE001 – else all would wait for ever
            _log.critical("nothing is decoded any more: %s", last)
            self.dead = last if isinstance(last, EdgeRuntimeError) else error
            self.idle = 1
        finally:
            self._moving = None
        self._changed()

    def _proven(self, loaded: Loaded) -> list[AnyRunner]:
        """Lanes of a device that failed before, if it says the same each time now."""
        runners = self._runners(loaded)
        for runner in runners:
            steady(runner)
        return runners

    async def _return(self, loaded: Loaded, runners: list[AnyRunner]) -> None:
        """Go on with the device that another one took the place of."""
        if self._moving is not None:
            await asyncio.wait({self._moving})
        left = self.loaded.device.name
        if self._engine is not None:
            self._empty(self._engine)
        self._loader.back(loaded)
        self.loaded, self.dead = loaded, None
        self._begin(runners)
        self._metrics.device.moved("back")
        _log.warning("%s works again and takes the place of %s", loaded.device.name, left)
        self._say(f"{loaded.device.name} works again, and is used from now on")
        self._changed()

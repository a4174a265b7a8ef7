"""The streams of a runtime: opened, told what came of updates, let go of once they are over."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Collection

from edge_runtime.audio import RATE
from edge_runtime.config import Config
from edge_runtime.decode.update import Hypothesis
from edge_runtime.errors import EdgeRuntimeError, ServerFull
from edge_runtime.events import Event
from edge_runtime.events import Warning as WarningEvent
from edge_runtime.metrics import RuntimeMetrics
from edge_runtime.runtime.commons import Commons
from edge_runtime.runtime.decoder import Decoder
from edge_runtime.runtime.engine import Task
from edge_runtime.runtime.hearing import ears
from edge_runtime.runtime.rings import Rings
from edge_runtime.runtime.stream import Stream
from edge_runtime.runtime.tracing import Tracer
from edge_runtime.runtime.turns import Turns
from edge_runtime.session import Options, Session, fitting, longest

_log = logging.getLogger(__name__)

RING_SECONDS = 30
"""The least audio that is kept of each stream; twice the longest segment where that is more."""

RINGS = 4
"""Rings that are made before a session comes; for more sessions at once, more are made."""


class Streams:
    """Those that are open, and what each has of the runtime's while it is.

    That is a place in the voice detector, a ring for its audio and its turns on the lanes. All
    methods belong to the event loop's thread.
    """

    def __init__(
        self,
        decoder: Decoder,
        config: Config,
        metrics: RuntimeMetrics,
        tracer: Tracer,
        stir: Callable[[], None],
    ) -> None:
        """`stir` is called where there is something new to hear, or something was asked for."""
        loaded, most = decoder.loaded, config.serving.max_sessions
        self.by_name: dict[str, Stream] = {}
        self.turns = Turns(decoder, self.by_name, metrics.batches, config.computing.page_kb << 10)
        self.ears = ears(loaded, most)
        # Room for the longest segment that may wait, and for what comes meanwhile.
        ring = max(RING_SECONDS * RATE, 2 * longest(config))
        self.rings = Rings(loaded.device, ring, min(RINGS, most))
        self._decoder = decoder
        self._config = config
        self._metrics = metrics
        self._tracer = tracer
        self._stir = stir
        self._touched: dict[Stream, None] = {}
        self._pace = 1.0

    def begin(self) -> None:
        """Serve from now on, in this loop, with the lanes that there are."""
        self.turns.open()
        self._left = asyncio.Event()

    def forget(self) -> None:
        """Let go of all memory, for good."""
        del self.ears, self.rings, self.turns

    # -- one comes, or goes

    def open(self, options: Options, commons: Commons) -> Stream:
        """A new stream, whose memory comes with its first audio.

        Raises `LanguageError` for one that the model does not know, and `ServerFull` when there are
        as many as the configuration allows or the crowd is too large.
        """
        most = self._config.serving.max_sessions
        if len(self.by_name) >= most:
            raise ServerFull(
                f"all {most} sessions are in use", "Try again later, or raise serving.max_sessions."
            )
        loaded = self._decoder.loaded
        loaded.model.check(options.language, options.task)
        if options.live:
            commons.crowd.admit()
        name = f"s{next(commons.names)}"
        config = fitting(loaded.served.suited(self._config), loaded.size.samples)
        ring = self.rings.open(lambda: self._decoder.loaded.device)
        session = Session(name, loaded.model, config, options, ring)
        session.pace(self._pace)
        stream = Stream(session, self.ears.open(), lambda: self._touch(stream))
        self.by_name[name] = stream
        self._tracer.opened(name)
        self._metrics.models.opened(loaded.name)
        return stream

    async def idle(self) -> None:
        """Wait, while the runtime serves, until none is open."""
        while self.by_name:
            self._left.clear()
            await self._left.wait()

    def cut_off(self) -> None:
        """End all that are open: nothing serves them any more."""
        for stream in list(self.by_name.values()):
            stream.put(stream.session.abandon("shutdown"))
            self._after(stream)

    def give_up(self, stream: Stream, error: Exception) -> None:
        """End one stream whose state cannot be trusted any more; the others go on."""
        code = error.code if isinstance(error, EdgeRuntimeError) else EdgeRuntimeError.code
        stream.put([WarningEvent(code=code, message=f"the session ends: {error}")])
        stream.put(stream.session.abandon("error"))

    # -- what happens to those that are open

    def _touch(self, stream: Stream) -> None:
        self._touched[stream] = None
        self._stir()

    def settle(self, heard: Collection[Stream]) -> None:
        """Carry out what clients asked for, those too who wait while others are heard."""
        touched, self._touched = self._touched | dict.fromkeys(heard), {}
        for stream in touched:
            self._after(stream)

    def pace(self, hop: float) -> None:
        """Let partials come `hop` times as seldom."""
        if hop != self._pace:
            self._pace = hop
            for stream in self.by_name.values():
                stream.session.pace(hop)
                self.turns.ask(stream)

    def tell(self, event: Event) -> None:
        """Everybody gets that event."""
        for stream in self.by_name.values():
            stream.put([event])

    def delivered(self, task: Task, result: Hypothesis | EdgeRuntimeError) -> None:
        """What came of an update goes to its stream."""
        self.turns.delivered(task)
        stream: Stream = task.owner
        session = stream.session
        began = time.perf_counter()
        if isinstance(result, EdgeRuntimeError):
            dead = self._decoder.dead is not None
            self._tracer.failed(task.update, task.wanted, result.code)
            stream.warn(result)
            stream.put(session.lost(task.update, again=not dead))
            if dead:
                self.give_up(stream, result)
        else:
            stream.relieved()
            self._metrics.models.update(self._decoder.loaded.name, result.cost.share)
            try:
                stream.put(session.accept(result))
            except Exception as error:  # noqa: BLE001 – a fault costs one session at most
                _log.exception("session %s failed", session.name)
                self.give_up(stream, error)
            self._tracer.merged(result, task.wanted, began, time.perf_counter())
        self._after(stream)

    def given_back(self, task: Task, draft: tuple[int, ...]) -> None:
        """An update was not run to its end: it is due again, as urgent as it was."""
        self.turns.delivered(task, back=True)
        stream: Stream = task.owner
        stream.passed_over(task.wanted)
        stream.put(stream.session.give_back(task.update, draft))
        self._after(stream)

    def _after(self, stream: Stream) -> None:
        """Carry out what the client asked for; let go of a stream that is over."""
        stream.control()
        self._count(stream)
        name = stream.session.name
        if name not in self.by_name:
            return
        if not stream.finished:
            self.turns.ask(stream)
            return
        del self.by_name[name]
        self._tracer.closed(name)
        self._metrics.models.closed(self._decoder.loaded.name)
        self.ears.close(stream.slot)
        self.rings.close(stream.session.ring)
        self.turns.forget(stream)
        self._touched.pop(stream, None)
        self._left.set()

    def _count(self, stream: Stream) -> None:
        """What the session tallied since it was last looked at."""
        tally, counted = stream.session.tally, stream.counted
        if tally == counted:
            return
        conflicts = tally.withheld + tally.forced - counted.withheld - counted.forced
        self._metrics.conflict(conflicts)
        self._metrics.overtaken(tally.overtaken - counted.overtaken)
        stream.counted = dataclasses.replace(tally)

"""The voice detectors' workers: whatever was fed is judged, all streams of one in a batch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from edge_runtime.audio import FRAME
from edge_runtime.audio.ring import Samples
from edge_runtime.audio.vad import AT_ONCE, Ears, VoiceDetector
from edge_runtime.runtime.load import Loaded
from edge_runtime.runtime.stream import Stream
from edge_runtime.runtime.tracing import Tracer

_log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds after which all is looked at though nobody says anything: a crowd may have gone."""

HEARD = 128
"""Streams that one detector is for: about 6 of every 32 ms of a server's core."""

EACH = 250e-6
"""Seconds between the beginnings of two batches for each stream that is open.

Judged at once, one by one, a frame costs three times what it does in a batch, and the loop's turns
more than that: 150 streams held the interpreter's lock 1.7 times as long.
"""

WAIT = 0.016
"""Seconds between two batches at most: half a frame."""

SHORT = 0.001
"""Seconds that are not worth a wait."""


def ears(loaded: Loaded, rows: int) -> Ears:
    """Voice detectors for `rows` streams, where cores are left for more than one."""
    count = max(1, min(-(-rows // HEARD), len(os.sched_getaffinity(0)) // 4))
    return Ears([loaded.ear(-(-rows // count)) for _ in range(count)])


class Hearing:
    """One for each loop that serves. All methods belong to that loop's thread."""

    def __init__(
        self,
        ears: Ears,
        streams: Mapping[str, Stream],
        settle: Callable[[Collection[Stream], float], None],
        give_up: Callable[[Stream, Exception], None],
        tracer: Tracer,
    ) -> None:
        """`settle` is called with those heard in a batch and the seconds that took, `give_up` with
        one that cannot be."""
        self._ears = ears
        self._streams = streams
        self._settle = settle
        self._give_up = give_up
        self._tracer = tracer
        self._due = asyncio.Event()
        self._workers = {each: ThreadPoolExecutor(1, "ears") for each in ears.detectors}
        self._task: asyncio.Task[None] | None = None

    def stir(self) -> None:
        """There is something to hear, or something was asked for."""
        self._due.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Judge inside this context."""
        with contextlib.ExitStack() as workers:
            for each in self._workers.values():
                workers.enter_context(each)
            self._task = asyncio.create_task(self._listen())
            self._task.add_done_callback(_ended)
            try:
                yield
            finally:
                self._task.cancel()
                # Where it failed, that has been said; the rest ends all the same.
                await asyncio.gather(self._task, return_exceptions=True)

    async def prove(self) -> None:
        """Return once all workers have come through with something; never, where one is stuck."""
        loop = asyncio.get_running_loop()
        each = (loop.run_in_executor(worker, _nothing) for worker in self._workers.values())
        await asyncio.gather(*each)
        if self._task is None or self._task.done():
            await asyncio.Event().wait()

    async def _listen(self) -> None:
        """Judge every frame that is due, then look what to decode."""
        loop = asyncio.get_running_loop()
        while True:
            later = loop.call_later(LOOK, self._due.set)
            await self._due.wait()
            later.cancel()
            self._due.clear()
            while batch := [each for each in self._streams.values() if each.session.due]:
                began = loop.time()
                await self._hear(batch)
                self._settle(batch, loop.time() - began)
                await self._wait(began)
            self._settle((), 0.0)

    async def _wait(self, began: float) -> None:
        """Let frames come together where many speak, after a batch that began then."""
        left = began + min(WAIT, EACH * len(self._streams)) - asyncio.get_running_loop().time()
        if left > SHORT:
            await asyncio.sleep(left)

    async def _hear(self, batch: list[Stream]) -> None:
        loop = asyncio.get_running_loop()
        heard = [stream.session.heard_samples for stream in batch]
        audio = [stream.session.frames(AT_ONCE) for stream in batch]
        parts = self._ears.shared([stream.slot for stream in batch])
        judging = [
            loop.run_in_executor(
                self._workers[detector], self._judge, detector, slots, [audio[n] for n in places]
            )
            for detector, places, slots in parts
        ]
        answers = await asyncio.gather(*judging, return_exceptions=True)
        for (_, places, _), found in zip(parts, answers, strict=True):
            if isinstance(found, BaseException):
                self._failed([batch[place] for place in places], found)
                continue
            for place, probabilities in zip(places, found, strict=True):
                stream = batch[place]
                if stream.session.heard_samples != heard[place]:
                    continue  # an overrun took the frames away meanwhile
                for probability in probabilities:
                    stream.put(stream.session.heard(probability))

    def _failed(self, streams: list[Stream], error: BaseException) -> None:
        """End those that cannot be heard; what is no fault of a detector goes on."""
        if not isinstance(error, Exception):
            raise error
        _log.error("the voice detector failed", exc_info=error)
        for stream in streams:
            self._give_up(stream, error)

    def _judge(
        self, detector: VoiceDetector, slots: list[int], audio: list[Samples]
    ) -> list[list[float]]:
        began = time.perf_counter()
        found = detector.hear(slots, audio)
        self._tracer.heard(began, time.perf_counter(), sum(map(len, audio)) // FRAME)
        return found


def _nothing() -> None:
    """What a thread that is not stuck does at once."""


def _ended(listening: asyncio.Task[None]) -> None:
    if not listening.cancelled() and (error := listening.exception()):
        _log.critical("nothing is heard any more: the audio worker failed", exc_info=error)

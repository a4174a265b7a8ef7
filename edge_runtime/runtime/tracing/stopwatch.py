"""Takes the time of a lane's stages, by the host's clock and by the device's marks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

from edge_runtime.decode.update import Update
from edge_runtime.device.base import Mark
from edge_runtime.runtime.tracing.ranges import Ranges
from edge_runtime.runtime.tracing.span import Place, Span


class Stopwatch:
    """A `Watch` that gives the spans of each update that came through to `keep`.

    The device's clock is another one than the host's: its spans are placed so that the last
    ends when the host saw the end. Their lengths are what the device says.
    """

    def __init__(self, lane: int, keep: Callable[[Span], None], ranges: Ranges) -> None:
        self._lane = lane
        self._keep = keep
        self._ranges = ranges
        self._updates: Sequence[Update] = ()
        self._began = 0.0
        self._stages: list[tuple[str, float, Mark]] = []

    def begin(self, updates: Sequence[Update]) -> None:
        """See `Watch`."""
        self._ranges.close()
        self._stages.clear()
        self._updates = updates
        self._began = time.perf_counter()
        self._ranges.push("update")

    def stage(self, name: str, mark: Mark) -> None:
        """See `Watch`."""
        self._stages.append((name, time.perf_counter(), mark))
        self._ranges.turn(name)

    def end(self, mark: Mark) -> None:
        """See `Watch`."""
        ended = time.perf_counter()
        self._ranges.close()
        first = self._stages[0][2]
        zero = ended - mark.since(first)
        places = [zero + each.since(first) for _, _, each in self._stages]
        moments = [moment for _, moment, _ in self._stages]
        self._give("lane", [*moments, ended], self._began)
        self._give("device", [*places, ended], zero)
        self._stages.clear()

    def _give(self, place: Place, moments: list[float], began: float) -> None:
        """The update, and in it the stages, which meet at `moments`."""
        update = self._updates[0]
        about: dict[str, str | int] = {
            "session": update.session,
            "segment": update.segment,
            "purpose": update.purpose.name.lower(),
            "samples": update.end - update.start,
        }
        self._keep(Span("update", place, began, moments[-1], self._lane, about=about))
        for (name, _, _), (start, stop) in zip(self._stages, pairwise(moments), strict=True):
            self._keep(Span(name, place, start, stop, self._lane))

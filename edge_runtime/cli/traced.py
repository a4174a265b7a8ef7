"""A view that shows nothing and says when events arrived; the beginning of a source."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType

from edge_runtime import events
from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.audio.source import Source
from edge_runtime.runtime.tracing import Recorder

SESSION = "s1"
"""The name of a runtime's first session."""


class Traced:
    """A client as a server's is, up to the bytes that it is sent."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __enter__(self) -> Traced:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, event: events.Event) -> None:
        """Take it in."""
        events.encode(event)
        if isinstance(event, events.Partial | events.Final):
            kind = "final" if isinstance(event, events.Final) else "partial"
            self._recorder.emitted(SESSION, kind, time.perf_counter())


class Beginning:
    """A source that ends after so many seconds."""

    def __init__(self, source: Source, seconds: float) -> None:
        self._source = source
        self.name, self.live = source.name, source.live
        self.seconds: float | None = min(seconds, source.seconds or seconds)

    @property
    def warnings(self) -> list[str]:
        """See `Source`."""
        return self._source.warnings

    def __iter__(self) -> Iterator[Samples]:
        left = round((self.seconds or 0.0) * RATE)
        for block in self._source:
            yield block[:left]
            left -= len(block)
            if left <= 0:
                return

    def __enter__(self) -> Beginning:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


def first(source: Source, seconds: float | None) -> Source:
    """The first seconds of a source, or all of it."""
    return source if seconds is None else Beginning(source, seconds)

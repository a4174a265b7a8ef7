"""Keeps every span of a run in memory."""

from __future__ import annotations

from collections.abc import Callable

from edge_runtime.decode.update import Hypothesis, Update
from edge_runtime.decode.watch import Watch
from edge_runtime.runtime.tracing.ranges import Ranges, open_ranges
from edge_runtime.runtime.tracing.span import Span
from edge_runtime.runtime.tracing.stopwatch import Stopwatch


class Recorder:
    """A `Tracer` for runs that end: `spans` grows with each update."""

    def __init__(self, ranges: Callable[[], Ranges] = open_ranges) -> None:
        """`ranges` gives a thread its own."""
        self.spans: list[Span] = []
        self._ranges = ranges
        self._merged: dict[str, float] = {}

    def watch(self, lane: int) -> Watch:
        """See `Tracer`."""
        # Appending to a list is safe from several threads.
        return Stopwatch(lane, self.spans.append, self._ranges())

    def opened(self, session: str) -> None:
        """See `Tracer`."""
        self._merged.pop(session, None)

    def heard(self, began: float, ended: float, frames: int) -> None:
        """See `Tracer`."""
        self.spans.append(Span("vad", "ears", began, ended, about={"frames": frames}))

    def merged(self, hypothesis: Hypothesis, wanted: float, began: float, ended: float) -> None:
        """See `Tracer`."""
        update, cost = hypothesis.update, hypothesis.cost
        about = {"session": update.session, "purpose": update.purpose.name.lower()}
        self.spans.append(
            Span("queue", "loop", wanted, wanted + cost.queue, waiting=True, about=about)
        )
        tokens = {name: getattr(cost, name) for name in ("drafted", "accepted", "produced")}
        self.spans.append(Span("merge", "loop", began, ended, about={**about, **tokens}))
        self._merged[update.session] = ended

    def failed(self, update: Update, wanted: float, code: str) -> None:
        """See `Tracer`: an update that failed took no time that could be told."""

    def emitted(self, session: str, kind: str, at: float) -> None:
        """What followed from the session's last update is with its client."""
        began = self._merged.pop(session, None)
        if began is not None:
            self.spans.append(
                Span(
                    "emit",
                    "loop",
                    began,
                    at,
                    waiting=True,
                    about={"session": session, "event": kind},
                )
            )

    def closed(self, session: str) -> None:
        """See `Tracer`: how long a session lasts says its audio."""

    def flush(self) -> None:
        """See `Tracer`: whoever wants the spans takes them."""

"""Sessions and updates as spans for an OpenTelemetry collector: times, sizes and counts only."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, Status, StatusCode, set_span_in_context

from edge_runtime import __version__
from edge_runtime.audio import RATE
from edge_runtime.decode.update import Hypothesis, Update
from edge_runtime.decode.watch import Unwatched, Watch
from edge_runtime.runtime.tracing.seldom import seldom

Attributes = Mapping[str, str | int | float]

PREFIX = "edge_runtime."
COMPLAIN = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk._shared_internal",
)
"""Loggers that say every few seconds that a collector is not there."""

LAST = 2.0
"""Seconds that the end of a server waits for a collector."""


class Otel:
    """A `Tracer` whose spans a thread of the SDK sends in batches.

    What a collector does not take in time is dropped: the queue is bounded, and nobody here
    waits for it. What the standard variables `OTEL_…` say of resource, sampling, batches,
    headers and timeouts holds.
    """

    def __init__(self, endpoint: str, about: Callable[[], Mapping[str, str]]) -> None:
        """`endpoint` is a collector's address without path, "" for that of the variables.

        `about` says what serves at that moment; it is part of every span.
        """
        for name in COMPLAIN:
            seldom(name)
        own = Resource.create({"service.name": "edge-runtime", "service.version": __version__})
        # Its end is ours to say: at the exit of the process it would wait for a dead collector.
        self._provider = TracerProvider(
            resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False
        )
        where = f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=where)))
        self._tracer = self._provider.get_tracer("edge_runtime", __version__)
        self._about = about
        self._sessions: dict[str, tuple[Span, Context]] = {}

    def watch(self, lane: int) -> Watch:
        """See `Tracer`: what an update cost says enough."""
        return Unwatched()

    def opened(self, session: str) -> None:
        """See `Tracer`."""
        span = self._tracer.start_span(
            "session", context=Context(), attributes=self._attributes({"session": session})
        )
        self._sessions[session] = span, set_span_in_context(span, Context())

    def heard(self, began: float, ended: float, frames: int) -> None:
        """See `Tracer`: of all sessions together, and so of no span."""

    def merged(self, hypothesis: Hypothesis, wanted: float, began: float, ended: float) -> None:
        """See `Tracer`."""
        cost = hypothesis.cost
        seconds = {
            "queue": cost.queue,
            "encode": cost.encode,
            "draft": cost.draft,
            "decode": cost.decode,
            "merge": ended - began,
        }
        counts = {"drafted": cost.drafted, "accepted": cost.accepted, "produced": cost.produced}
        told: Attributes = {
            **{f"{name}_seconds": value for name, value in seconds.items()},
            **{f"tokens_{name}": value for name, value in counts.items()},
            "passes": cost.passes,
            "host_waits": cost.waits,
        }
        self._update(hypothesis.update, wanted, told).end(_epoch(ended))

    def failed(self, update: Update, wanted: float, code: str) -> None:
        """See `Tracer`."""
        span = self._update(update, wanted, {})
        span.set_attribute("error.type", code)
        span.set_status(Status(StatusCode.ERROR, code))
        span.end()

    def closed(self, session: str) -> None:
        """See `Tracer`."""
        span, _ = self._sessions.pop(session)
        span.end()

    def flush(self) -> None:
        """See `Tracer`."""
        # The SDK's own limit does not hold while a collector that is not there is tried again.
        last = threading.Thread(target=self._provider.force_flush, name="otel-flush", daemon=True)
        last.start()
        last.join(LAST)

    def _update(self, update: Update, wanted: float, told: Attributes) -> Span:
        known: Attributes = {
            "session": update.session,
            "segment": update.segment,
            "purpose": update.purpose.name.lower(),
            "audio_seconds": (update.end - update.start) / RATE,
        }
        return self._tracer.start_span(
            "update",
            context=self._sessions[update.session][1],
            attributes=self._attributes({**known, **told}),
            start_time=_epoch(wanted),
        )

    def _attributes(self, told: Attributes) -> dict[str, str | int | float]:
        every = {"version": __version__, **self._about(), **told}
        return {f"{PREFIX}{name}": value for name, value in every.items()}


def _epoch(moment: float) -> int:
    """Nanoseconds since 1970 of a moment of `time.perf_counter`."""
    return time.time_ns() - round(1e9 * (time.perf_counter() - moment))

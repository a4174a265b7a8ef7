"""All figures, and the text that Prometheus reads."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from edge_runtime import events
from edge_runtime.events import Error, Event, Final, Overrun, Partial
from edge_runtime.metrics.batches import BatchMetrics
from edge_runtime.metrics.device import DeviceMetrics
from edge_runtime.metrics.dialects import DialectMetrics
from edge_runtime.metrics.load import LoadMetrics
from edge_runtime.metrics.models import ModelMetrics
from edge_runtime.metrics.power import PowerMetrics
from edge_runtime.metrics.recent import RecentUpdates
from edge_runtime.metrics.variants import VariantMetrics

CONTENT_TYPE = CONTENT_TYPE_LATEST
MOST_NAMES = 100
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 5.0, 10.0)


class Cost(Protocol):
    """What is counted of an update: seconds of its stages, and tokens."""

    @property
    def queue(self) -> float: ...
    @property
    def encode(self) -> float: ...
    @property
    def draft(self) -> float: ...
    @property
    def decode(self) -> float: ...
    @property
    def drafted(self) -> int: ...
    @property
    def accepted(self) -> int: ...
    @property
    def bonus(self) -> int: ...
    @property
    def produced(self) -> int: ...
    @property
    def passes(self) -> int: ...


_TOKENS = ("drafted", "accepted", "bonus", "produced")
_Counted = tuple[Counter, Counter, list[tuple[str, Histogram]], list[tuple[str, Counter]]]


class Metrics:
    """All figures: the server counts sockets and events, the runtime its updates.

    `device` has those of the device, `batches` those of its scheduler, `dialects` those of each
    protocol, `models` those of each model, `variants` those of a trial, `load` of overload,
    `power` heat and power; `recent`
    remembers the last updates one by one.
    """

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        # CPU seconds and resident memory; needs /proc, elsewhere it gives nothing
        ProcessCollector(namespace="edge_runtime", registry=registry)
        self._open = Gauge(
            "edge_runtime_sessions_open", "Sessions open, parked ones included", registry=registry
        )
        self._parked = Gauge(
            "edge_runtime_sessions_parked", "Sessions waiting for their client", registry=registry
        )
        self._sessions = Counter(
            "edge_runtime_sessions", "Sessions closed", ["reason"], registry=registry
        )
        self._refused = Counter(
            "edge_runtime_refused", "Sessions refused", ["code"], registry=registry
        )
        self._by_key = Counter(
            "edge_runtime_key_sessions",
            "Sessions begun, by the name of the key",
            ["key"],
            registry=registry,
        )
        self._named: set[str] = set()
        self._audio = Counter(
            "edge_runtime_audio_seconds", "Seconds of audio taken in", registry=registry
        )
        self._bytes = Counter(
            "edge_runtime_bytes", "Bytes of messages on sockets", ["direction"], registry=registry
        )
        self._updates = Counter(
            "edge_runtime_updates", "Updates decoded", ["purpose"], registry=registry
        )
        self._stages = Histogram(
            "edge_runtime_stage_seconds",
            "Where the time of an update goes",
            ["purpose", "stage"],
            buckets=SECONDS,
            registry=registry,
        )
        self._tokens = Counter(
            "edge_runtime_tokens",
            "Tokens drafted, accepted, won as a pass's own next (bonus) and produced",
            ["purpose", "kind"],
            registry=registry,
        )
        self._passes = Counter(
            "edge_runtime_passes",
            "Decoder passes that updates took",
            ["purpose"],
            registry=registry,
        )
        self._of = lru_cache(self._counted)
        self.device = DeviceMetrics(registry)
        self.batches = BatchMetrics(registry)
        self.dialects = DialectMetrics(registry)
        self.models = ModelMetrics(registry)
        self.variants = VariantMetrics(registry)
        self.load = LoadMetrics(registry)
        self.power = PowerMetrics(registry)
        self.recent = RecentUpdates()
        self._conflicts = Counter(
            "edge_runtime_stable_conflicts",
            "Texts that contradicted stable words",
            registry=registry,
        )
        self._overtaken = Counter(
            "edge_runtime_speculations_overtaken",
            "Early finishes that speech overtook",
            registry=registry,
        )
        self._finals = Counter("edge_runtime_finals", "Finals", ["reason"], registry=registry)
        self._rejected = Counter(
            "edge_runtime_finals_rejected",
            "Finals whose text was not believed",
            ["rejected"],
            registry=registry,
        )
        self._overruns = Counter(
            "edge_runtime_overruns", "Times a live source outran the device", registry=registry
        )
        self._dropped = Counter(
            "edge_runtime_dropped_seconds",
            "Seconds of audio dropped by overruns",
            registry=registry,
        )
        self._warnings = Counter(
            "edge_runtime_warnings", "Warnings sent", ["code"], registry=registry
        )
        self._errors = Counter("edge_runtime_errors", "Errors sent", ["code"], registry=registry)

    def opened(self) -> None:
        """A session began."""
        self._open.inc()

    def closed(self, reason: str) -> None:
        """A session ended."""
        self._open.dec()
        self._sessions.labels(reason).inc()

    def refused(self, code: str) -> None:
        """A client was turned away before a session began."""
        self._refused.labels(code).inc()

    def key_used(self, name: str) -> None:
        """A session began with the key of that name; the names beyond the first 100 are one."""
        if len(self._named) < MOST_NAMES:
            self._named.add(name)
        self._by_key.labels(name if name in self._named else "(other)").inc()

    def parked(self, change: int) -> None:
        """So many sessions more (or fewer) wait for their client."""
        self._parked.inc(change)

    def heard(self, seconds: float) -> None:
        """So much audio of clients was taken in."""
        self._audio.inc(seconds)

    def received(self, size: int) -> None:
        """A message of `size` bytes came in."""
        self._bytes.labels("in").inc(size)

    def sent(self, event: object, size: int, waited: float) -> None:
        """An event, or an answer, of `size` bytes went out, `waited` seconds after it was made."""
        self._bytes.labels("out").inc(size)
        if isinstance(event, (Partial, Final)):
            purpose = "final" if isinstance(event, Final) else "partial"
            self._stages.labels(purpose, "emit").observe(waited)
            self.recent.sent(purpose, waited)

    def event(self, event: Event) -> None:
        """A session said something, whether or not a client is there to read it."""
        if isinstance(event, Final):
            self._finals.labels(event.reason).inc()
            if event.rejected is not None:
                self._rejected.labels(event.rejected).inc()
        elif isinstance(event, Overrun):
            self._overruns.inc()
            self._dropped.inc(event.dropped_ms / 1000)
        elif isinstance(event, events.Warning):
            self._warnings.labels(event.code).inc()
        elif isinstance(event, Error):
            self._errors.labels(event.code).inc()

    def update(self, purpose: str, cost: Cost) -> None:
        """An update was decoded; `purpose` is "final", "speculative" or "partial"."""
        self.recent.decoded(purpose, cost.queue, cost.encode, cost.draft, cost.decode)
        updates, passes, stages, tokens = self._of(purpose)
        updates.inc()
        for stage, histogram in stages:
            histogram.observe(getattr(cost, stage))
        for kind, counter in tokens:
            counter.inc(getattr(cost, kind))
        passes.inc(cost.passes)

    def _counted(self, purpose: str) -> _Counted:
        """What is counted of each update of a purpose, looked up once."""
        stages, kinds = ("queue", "encode", "draft", "decode"), _TOKENS
        return (
            self._updates.labels(purpose),
            self._passes.labels(purpose),
            [(stage, self._stages.labels(purpose, stage)) for stage in stages],
            [(kind, self._tokens.labels(purpose, kind)) for kind in kinds],
        )

    def conflict(self, count: int = 1) -> None:
        """So many texts contradicted words already sent as stable."""
        self._conflicts.inc(count)

    def overtaken(self, count: int = 1) -> None:
        """Speech went on after so many speculations on its end."""
        self._overtaken.inc(count)

    @property
    def energy_per_hour(self) -> float | None:
        """Wh for each hour of audio since the start, rest included; None where nobody tells."""
        joules, seconds = self.power.joules, self.value("edge_runtime_audio_seconds_total")
        return joules / seconds if joules is not None and seconds else None  # Wh/h is J/s

    def text(self) -> bytes:
        """All of it, in Prometheus' text format (`CONTENT_TYPE`)."""
        return generate_latest(self._registry)

    def value(self, name: str, **labels: str) -> float:
        """One sample as it stands, 0 where nothing was counted yet."""
        return self._registry.get_sample_value(name, labels) or 0.0

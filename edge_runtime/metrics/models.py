"""Figures of each model that is served, under its name."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)


class ModelMetrics:
    """`model` is the name that sessions choose it by; all its variants count together."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._open = Gauge(
            "edge_runtime_model_sessions_open",
            "Sessions that each model serves now",
            ["model"],
            registry=registry,
        )
        self._sessions = Counter(
            "edge_runtime_model_sessions",
            "Sessions that each model served to their end",
            ["model"],
            registry=registry,
        )
        self._updates = Histogram(
            "edge_runtime_model_update_seconds",
            "Seconds that an update of each model takes on the device",
            ["model"],
            buckets=SECONDS,
            registry=registry,
        )

    def opened(self, model: str) -> None:
        """A session began."""
        self._open.labels(model).inc()

    def closed(self, model: str) -> None:
        """A session is over."""
        self._open.labels(model).dec()
        self._sessions.labels(model).inc()

    def update(self, model: str, seconds: float) -> None:
        """An update took so long, the wait for a lane aside."""
        self._updates.labels(model).observe(seconds)

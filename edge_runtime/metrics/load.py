"""Figures of overload: what speakers ask of the lanes, and how far everybody gives way."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class LoadMetrics:
    """The step of the ladder, and what it is climbed for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._level = Gauge(
            "edge_runtime_load_level",
            "0: partials as usual, 1: half as often, 2: a quarter, 3: none, 4: nobody new comes in",
            registry=registry,
        )
        self._asked = Gauge(
            "edge_runtime_lanes_asked",
            "Lanes that would be busy all the time with partials as usual",
            registry=registry,
        )
        self._changes = Counter(
            "edge_runtime_load_changes",
            "Changes of the level",
            ["direction"],
            registry=registry,
        )

    def load(self, level: int, asked: float) -> None:
        """What is in force, and the lanes that are asked for."""
        self._level.set(level)
        self._asked.set(asked)

    def changed(self, direction: str) -> None:
        """The level became "harder" or "easier"."""
        self._changes.labels(direction).inc()

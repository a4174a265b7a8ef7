"""Figures of the scheduler: how large batches are, what waits, who holds memory."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

ROWS = (1, 2, 4, 8, 12, 16, 24, 32, 64)


class BatchMetrics:
    """Of all lanes together."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rows = Histogram(
            "edge_runtime_batch_rows",
            "Updates that a lane was given together",
            buckets=ROWS,
            registry=registry,
        )
        self._queues = Gauge(
            "edge_runtime_queue",
            "Updates that wait for a lane (prefill), and that lanes are at (decode)",
            ["queue"],
            registry=registry,
        )
        self._window = Gauge(
            "edge_runtime_batch_window_seconds",
            "What a batch would wait for more updates, were others to wait and lanes at work",
            registry=registry,
        )
        self._pages = Gauge(
            "edge_runtime_pages",
            "Pages of the pool for keys, values and state of sessions",
            ["state"],
            registry=registry,
        )
        self._dropped = Counter(
            "edge_runtime_states_dropped",
            "States of sessions that had to make room for others and are computed again",
            registry=registry,
        )
        self._recalled = Counter(
            "edge_runtime_recalled",
            "Partials that were given back because a final needed their lane or their memory",
            registry=registry,
        )
        self._deferred = Counter(
            "edge_runtime_deferred",
            "Updates that went on in another batch, because few were left of their own",
            registry=registry,
        )

    def batch(self, rows: int) -> None:
        """A lane was given so many."""
        self._rows.observe(rows)

    def queues(self, waiting: int, stepping: int, window: float) -> None:
        """So many updates wait and are at work; a batch would wait `window` seconds for more."""
        self._queues.labels("prefill").set(waiting)
        self._queues.labels("decode").set(stepping)
        self._window.set(window)

    def pages(self, held: Mapping[str, int]) -> None:
        """So many pages are held in each state, "free" among them."""
        for state, count in held.items():
            self._pages.labels(state).set(count)

    def dropped(self, count: int) -> None:
        """So many sessions' states had to go."""
        self._dropped.inc(count)

    def recalled(self, count: int) -> None:
        """So many partials were given back."""
        self._recalled.inc(count)

    def deferred(self) -> None:
        """One goes on in another batch."""
        self._deferred.inc()

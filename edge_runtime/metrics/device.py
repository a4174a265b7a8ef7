"""Figures of the device: what it was given, what was kept ready, how often it was waited for."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

OUT = frozenset({"results", "align"})
"""Kinds of bytes that leave the device."""

WAITS = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)


class DeviceMetrics:
    """Counted for all lanes together, from the end of their warm-up on."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._waits = Histogram(
            "edge_runtime_host_waits",
            "Times that the host waited for the device in an update",
            ["purpose"],
            buckets=WAITS,
            registry=registry,
        )
        self._of: dict[str, Histogram] = {}
        self._ties = Counter(
            "edge_runtime_near_ties",
            "Tokens whose lead over the second best is a matter of rounding",
            registry=registry,
        )
        self._copied = Counter(
            "edge_runtime_copied_bytes",
            "Bytes copied between host and device",
            ["direction", "kind"],
            registry=registry,
        )
        self._graphs = Counter(
            "edge_runtime_graphs",
            "Looks for a captured graph: found (hit), made (miss), could not be made (failed)",
            ["result"],
            registry=registry,
        )
        self._padded = Counter(
            "edge_runtime_padding",
            "What calls were made for: audio samples and tokens, real ones and padding",
            ["kind", "part"],
            registry=registry,
        )
        self._allocations = Counter(
            "edge_runtime_device_allocations",
            "Allocations on the device after the warm-up",
            registry=registry,
        )
        self._taken: dict[tuple[str, ...], int] = {}
        self._memory = Gauge(
            "edge_runtime_device_memory_bytes",
            "Memory of the device: taken by this process, free by the card's own account, now "
            "and when it was warm",
            ["part"],
            registry=registry,
        )
        self._fallback = Gauge(
            "edge_runtime_fallback",
            "1 while another device is used than the first choice",
            registry=registry,
        )
        self._failures = Counter(
            "edge_runtime_device_failures",
            "Updates that the device failed at",
            registry=registry,
        )
        self._moves = Counter(
            "edge_runtime_device_moves",
            "Changes of the device while serving: away from one that failed, back to it",
            ["direction"],
            registry=registry,
        )
        self._model = Gauge(
            "edge_runtime_model_info",
            "1 for each model that serves: what it is computed in, calibrated as which variant",
            ["model", "precision", "variant", "forced"],
            registry=registry,
        )

    def update(self, purpose: str, waits: int, ties: int) -> None:
        """In an update the host waited so often, and so many tokens might have been others."""
        of = self._of.get(purpose)
        if of is None:
            of = self._of[purpose] = self._waits.labels(purpose)
        of.observe(waits)
        self._ties.inc(ties)

    def copied(self, kind: str, size: int) -> None:
        """So many bytes of a kind were copied; results and alignments leave the device."""
        direction = "out" if kind in OUT else "in"
        self._copied.labels(direction, kind).inc(size)

    def graphs(self, hits: int, misses: int, failed: int) -> None:
        """So many captured graphs were found, and made, and could not be made."""
        for result, count in (("hit", hits), ("miss", misses), ("failed", failed)):
            self._graphs.labels(result).inc(count)

    def padded(self, kind: str, real: int, padding: int) -> None:
        """Calls were made for so many "samples" or "queries", and so many more for nothing."""
        self._padded.labels(kind, "real").inc(real)
        self._padded.labels(kind, "padding").inc(padding)

    def allocated(self, count: int) -> None:
        """So many allocations on the device after the warm-up."""
        self._allocations.inc(count)

    def memory(self, model: tuple[str, ...], taken: int, free: int, free_when_warm: int) -> None:
        """So many bytes of the device are that model's (see `serves`), and so many nobody's."""
        self._taken[model] = taken
        ours = sum(self._taken.values())
        for part, size in (("taken", ours), ("free", free), ("free_when_warm", free_when_warm)):
            self._memory.labels(part).set(size)

    def fallback(self, active: bool) -> None:
        """Whether another device is used than the first choice."""
        self._fallback.set(active)

    def failed(self) -> None:
        """An update failed."""
        self._failures.inc()

    def moved(self, direction: str) -> None:
        """Sessions moved "away" from a device, or "back" to it."""
        self._moves.labels(direction).inc()

    def serves(self, model: tuple[str, ...], before: tuple[str, ...] | None) -> None:
        """A model serves from now on, in the place of another or of none.

        Each is its name, its precision, the fingerprint of its variant or "", and "true" where
        that was forced, else "false".
        """
        if before is not None and before != model:
            self._model.remove(*before)
            self._taken.pop(before, None)
        self._model.labels(*model).set(1)

    def retires(self, model: tuple[str, ...]) -> None:
        """A model serves no more, and none in its place."""
        self._model.remove(*model)
        self._taken.pop(model, None)

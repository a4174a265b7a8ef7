"""What is counted of each protocol that clients speak."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from edge_runtime.events import Final

_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)


class DialectMetrics:
    """Figures with the label `dialect`: "native", or a dialect's name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._opened = Counter(
            "edge_runtime_dialect_sessions", "Sessions opened", ["dialect"], registry=registry
        )
        self._refused = Counter(
            "edge_runtime_dialect_refused",
            "Clients turned away before a session began",
            ["dialect", "code"],
            registry=registry,
        )
        self._audio = Counter(
            "edge_runtime_dialect_audio_seconds",
            "Seconds of audio taken in",
            ["dialect"],
            registry=registry,
        )
        self._emit = Histogram(
            "edge_runtime_dialect_emit_seconds",
            "From a final to its messages on the socket",
            ["dialect"],
            buckets=_SECONDS,
            registry=registry,
        )

    def opened(self, dialect: str) -> None:
        """A session began."""
        self._opened.labels(dialect).inc()

    def refused(self, dialect: str, code: str) -> None:
        """A client was turned away."""
        self._refused.labels(dialect, code).inc()

    def heard(self, dialect: str, seconds: float) -> None:
        """So much audio was taken in."""
        self._audio.labels(dialect).inc(seconds)

    def sent(self, dialect: str, said: object, waited: float) -> None:
        """What was said is out, `waited` seconds after it was made."""
        if isinstance(said, Final):
            self._emit.labels(dialect).observe(waited)

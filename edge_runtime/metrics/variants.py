"""Figures of a trial: the model that serves beside the candidate, each under its own name."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)


class VariantMetrics:
    """`variant` is a fingerprint, or "full" for the model in full precision."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, said: str) -> Counter:
            return Counter(f"edge_runtime_variant_{name}", said, ["variant"], registry=registry)

        self._sessions = counter("sessions", "Sessions that ended, of each model on trial")
        self._failed = counter("sessions_failed", "Sessions in which an update failed")
        self._finals = counter("finals", "Finals of each model on trial")
        self._rejected = counter("finals_rejected", "Finals whose text was not believed")
        self._conflicts = counter("stable_conflicts", "Texts that contradicted stable words")
        self._words = counter("words", "Words of finals")
        self._speech = counter("speech_seconds", "Seconds of segments whose final has words")
        self._updates = Histogram(
            "edge_runtime_variant_update_seconds",
            "Seconds that updates take on the device",
            ["variant"],
            buckets=SECONDS,
            registry=registry,
        )

    def ended(self, variant: str, *, failed: bool) -> None:
        """A session is over."""
        self._sessions.labels(variant).inc()
        self._failed.labels(variant).inc(failed)

    def final(self, variant: str, *, rejected: bool, words: int, seconds: float) -> None:
        """A segment of so many seconds has its final text."""
        self._finals.labels(variant).inc()
        self._rejected.labels(variant).inc(rejected)
        self._words.labels(variant).inc(words)
        self._speech.labels(variant).inc(seconds)

    def conflict(self, variant: str, count: int) -> None:
        """So many texts contradicted words already sent as stable."""
        self._conflicts.labels(variant).inc(count)

    def update(self, variant: str, seconds: float) -> None:
        """An update took so long, the wait for a lane aside."""
        self._updates.labels(variant).observe(seconds)

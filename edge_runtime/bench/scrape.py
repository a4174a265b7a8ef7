"""A server's /metrics as numbers, and what changed between two readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Key = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True)
class Scrape:
    """Samples of a page in Prometheus' text format, by name and labels."""

    samples: Mapping[Key, float]

    @classmethod
    def parse(cls, page: str) -> Scrape:
        from prometheus_client.parser import text_string_to_metric_families

        return cls(
            {
                (sample.name, frozenset(sample.labels.items())): float(sample.value)
                for family in text_string_to_metric_families(page)
                for sample in family.samples
            }
        )

    def __sub__(self, earlier: Scrape) -> Scrape:
        """The growth of every sample."""
        return Scrape(
            {key: value - earlier.samples.get(key, 0.0) for key, value in self.samples.items()}
        )

    def value(self, name: str, **labels: str) -> float | None:
        """The sum of a name's samples that carry these labels, or None if there are none."""
        found = [
            value
            for (sample, have), value in self.samples.items()
            if sample == name and have >= labels.items()
        ]
        return sum(found) if found else None

    def mean(self, histogram: str, **labels: str) -> float | None:
        """The mean of a histogram's or summary's observations."""
        total, count = (self.value(f"{histogram}_{x}", **labels) for x in ("sum", "count"))
        return total / count if total is not None and count else None

    def below(self, histogram: str, **labels: str) -> list[tuple[float, float]]:
        """How many observations are not above each edge of its buckets, ascending."""
        edges: dict[float, float] = {}
        for (sample, have), value in self.samples.items():
            if sample == f"{histogram}_bucket" and have >= labels.items():
                edge = float(dict(have)["le"])
                edges[edge] = edges.get(edge, 0.0) + value
        return sorted(edges.items())

    def quantile(self, histogram: str, q: float, **labels: str) -> float | None:
        """The q-quantile (0…1), by straight lines inside the buckets."""
        edges = self.below(histogram, **labels)
        most = max((count for _, count in edges), default=0.0)
        if not most:
            return None
        wanted = q * most
        below, counted = 0.0, 0.0
        for edge, count in edges:
            if count >= wanted:
                if edge == float("inf"):
                    return below
                inside = count - counted
                return below + (edge - below) * ((wanted - counted) / inside if inside else 1.0)
            below, counted = edge, count
        return below

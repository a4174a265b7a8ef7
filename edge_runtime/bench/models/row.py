"""What one system made of the clips."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from edge_runtime.bench.percentile import percentile
from edge_runtime.words import Score


@dataclass
class Row:
    """`finals` and `firsts` in ms; `cpu` in seconds a second of paced audio, memory in bytes.

    `disk`: bytes of the files that are loaded. `said`: in what form it ran, or why it did not.
    """

    name: str
    ours: bool
    score: Score | None = None
    clips: int = 0
    finals: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    paced: int = 0
    cpu: float | None = None
    whole: float | None = None
    memory: int | None = None
    disk: int | None = None
    said: str = ""
    failed: bool = False

    @property
    def wer(self) -> float | None:
        """Percent."""
        return None if self.score is None else self.score.rate

    def record(self) -> dict[str, Any]:
        """For a file."""
        return {
            "system": self.name,
            "ours": self.ours,
            "wer": self.wer,
            "words": None if self.score is None else self.score.words,
            "clips": self.clips,
            "final_ms": {f"p{q}": percentile(self.finals, q) for q in (50, 95)},
            "first_ms": {f"p{q}": percentile(self.firsts, q) for q in (50, 95)},
            "paced_clips": self.paced,
            "cpu_seconds_per_second": self.cpu,
            "cpu_seconds_per_second_unpaced": self.whole,
            "memory_bytes": self.memory,
            "disk_bytes": self.disk,
            "said": self.said,
            "failed": self.failed,
        }

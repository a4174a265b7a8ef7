"""What one model did in a trial, in the figures that two models are compared by."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

UPDATES = 1000
"""The latest updates whose time is compared."""


@dataclass
class Counts:
    """`sessions` that ended, `failed` ones among them; `speech` is the seconds of the `words`.

    `updates` are seconds on the device, the wait for a lane aside.
    """

    sessions: int = 0
    failed: int = 0
    finals: int = 0
    rejected: int = 0
    conflicts: int = 0
    words: int = 0
    speech: float = 0.0
    updates: deque[float] = field(default_factory=lambda: deque(maxlen=UPDATES))

    @property
    def failed_share(self) -> float:
        """Of sessions."""
        return self.failed / self.sessions if self.sessions else 0.0

    @property
    def rejected_share(self) -> float:
        """Of finals."""
        return self.rejected / self.finals if self.finals else 0.0

    @property
    def conflict_share(self) -> float:
        """Of finals."""
        return self.conflicts / self.finals if self.finals else 0.0

    @property
    def words_per_second(self) -> float | None:
        """Of the segments that have words; None before there is one."""
        return self.words / self.speech if self.speech else None

    @property
    def latency(self) -> float | None:
        """Seconds that 95 % of the latest updates take at most; None before there is one."""
        return float(np.percentile(list(self.updates), 95)) if self.updates else None

    def told(self) -> dict[str, float | None]:
        """All of it for people, rounded."""
        rate, latency = self.words_per_second, self.latency
        return {
            "sessions": self.sessions,
            "finals": self.finals,
            "failed_share": round(self.failed_share, 4),
            "rejected_share": round(self.rejected_share, 4),
            "conflict_share": round(self.conflict_share, 4),
            "words_per_second": None if rate is None else round(rate, 3),
            "update_p95_ms": None if latency is None else round(1000 * latency, 2),
        }

"""What all readers of sensors have in common."""

from __future__ import annotations

from typing import Protocol

from edge_runtime.power.readings import Readings


class Reader(Protocol):
    """Reads all sensors of a machine; one thread at a time."""

    def read(self, at: float) -> Readings:
        """What they say now, at second `at` of a monotonic clock; takes milliseconds."""

    def close(self) -> None:
        """Let go of what is open."""

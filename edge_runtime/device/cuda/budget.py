"""What the process has taken of the GPU's memory, and the cap on it: arithmetic, no more."""

from __future__ import annotations

import threading
from typing import Literal

from edge_runtime.errors import DeviceError

What = Literal["device", "pinned", "scratch", "engine"]
WHATS: tuple[What, ...] = ("device", "pinned", "scratch", "engine")
"""Buffers on the device, page-locked ones of the host, what streams lend to their calls,
and what a library takes for its weights and itself."""


class Budget:
    """Bytes taken, by what for; safe from several threads. `cap` is bytes, None for none."""

    def __init__(self, cap: int | None = None) -> None:
        self.cap = cap
        self.peak = 0
        self.allocations = 0
        self._warm = 0
        self._taken: dict[What, int] = dict.fromkeys(WHATS, 0)
        self._held: dict[What, int] = dict.fromkeys(WHATS, 0)
        self._lock = threading.Lock()

    @property
    def taken(self) -> int:
        """Bytes that are taken now."""
        return sum(self._taken.values())

    @property
    def by_kind(self) -> dict[What, int]:
        """Bytes that are taken now, for each of `WHATS`."""
        return dict(self._taken)

    @property
    def since_warm(self) -> int:
        """Allocations since `mark_warm`; since the start where it was never called."""
        return self.allocations - self._warm

    def mark_warm(self) -> None:
        """From here on nothing should be allocated: `since_warm` says how often it was."""
        with self._lock:
            self._warm = self.allocations

    def take(self, size: int, what: What) -> None:
        """Note one allocation; raises `DeviceError`, and notes nothing, over the cap."""
        with self._lock:
            taken = self.taken
            if self.cap is not None and taken + size > self.cap:
                raise DeviceError(
                    f"no {size} bytes of {what} memory: {taken} are taken "
                    f"({self._split()}) of the {self.cap} that are allowed",
                    "Raise [computing] memory_mb, close sessions, or choose a smaller model.",
                )
            self._taken[what] += size
            self._held[what] += 1
            self.allocations += 1
            self.peak = max(self.peak, taken + size)

    def give(self, size: int, what: What) -> None:
        """Note that one allocation of `size` was released."""
        with self._lock:
            if self._held[what] < 1 or self._taken[what] < size:
                raise AssertionError(f"{size} bytes of {what} memory given back, never taken")
            self._taken[what] -= size
            self._held[what] -= 1

    def check_integrity(self) -> None:
        """An `AssertionError` where the sums cannot be right."""
        with self._lock:
            for what in WHATS:
                size, held = self._taken[what], self._held[what]
                if size < 0 or held < 0 or (held == 0 and size != 0):
                    raise AssertionError(f"{size} bytes of {what} memory in {held} allocations")
            if not self.taken <= self.peak or (self.cap is not None and self.peak > self.cap):
                raise AssertionError(f"{self.taken} taken, peak {self.peak}, cap {self.cap}")
            if not sum(self._held.values()) <= self.allocations:
                raise AssertionError(f"{self._held} held of {self.allocations} allocations")

    def _split(self) -> str:
        return ", ".join(f"{what} {size}" for what, size in self._taken.items() if size) or "none"

"""What the process has taken of the GPU's memory, and the cap on it: arithmetic, no more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

from edge_runtime.errors import MemoryCapped

What = Literal["device", "pinned", "scratch", "engine"]
WHATS: tuple[What, ...] = ("device", "pinned", "scratch", "engine")
"""Buffers on the device, page-locked ones of the host, what streams lend to their calls,
and what a library takes for its weights and itself."""

Seen = Literal["driver", "host"]
SEEN: tuple[Seen, ...] = ("driver", "host")
"""What no allocation says: contexts, code, graphs and all of onnxruntime's on the device, and the
process's own memory where it lies on the same chip. Its size is measured."""


class Budget:
    """Bytes taken, by what for; safe from several threads. `cap` is bytes, None for none.

    Where `resident` is set, it says how much the process has of the same memory besides: that is
    asked for whenever the cap is checked.
    """

    def __init__(self, cap: int | None = None) -> None:
        self.cap = cap
        self.peak = 0
        self.allocations = 0
        self.resident: Callable[[], int] | None = None
        self._warm = 0
        self._seen: dict[Seen, int] = dict.fromkeys(SEEN, 0)
        self._taken: dict[What, int] = dict.fromkeys(WHATS, 0)
        self._held: dict[What, int] = dict.fromkeys(WHATS, 0)
        self._lock = threading.Lock()

    @property
    def taken(self) -> int:
        """Bytes that are taken now."""
        return sum(self._taken.values()) + sum(self._seen.values())

    @property
    def by_kind(self) -> dict[What | Seen, int]:
        """Bytes that are taken now, for each of `WHATS` and `SEEN`."""
        known: dict[What | Seen, int] = {}
        known.update(self._taken.items())
        known.update(self._seen.items())
        return known

    @property
    def since_warm(self) -> int:
        """Allocations since `mark_warm`; since the start where it was never called."""
        return self.allocations - self._warm

    def mark_warm(self) -> None:
        """From here on nothing should be allocated: `since_warm` says how often it was."""
        with self._lock:
            self._warm = self.allocations

    def take(self, size: int, what: What) -> None:
        """Note one allocation; raises `MemoryCapped`, and notes nothing, over the cap."""
        with self._lock:
            self._check(size, what)
            self._taken[what] += size
            self._held[what] += 1
            self.allocations += 1
            self.peak = max(self.peak, self.taken)

    def found(self, size: int, what: Seen = "driver") -> None:
        """Note that so much was measured, all in all; raises and notes nothing over the cap."""
        with self._lock:
            grown = size - self._seen[what]
            if grown > 0:
                self._check(grown, what)
            self._seen[what] = size
            self.peak = max(self.peak, self.taken)

    def _check(self, size: int, what: What | Seen) -> None:
        """Raise where the cap does not allow `size` bytes more."""
        if self.cap is None:
            return
        resident = self.resident() if self.resident is not None else 0
        now = {**self.by_kind, "host": resident}
        taken = sum(now.values())
        if taken + size > self.cap:
            split = ", ".join(f"{kind} {each}" for kind, each in now.items() if each) or "none"
            raise MemoryCapped(
                f"no {size} bytes of {what} memory: {taken} are taken "
                f"({split}) of the {self.cap} that are allowed",
                "Raise [computing] memory_mb, close sessions, or choose a smaller model.",
            )
        self._seen["host"] = resident

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
            if min(self._seen.values()) < 0:
                raise AssertionError(f"{self._seen} were measured")
            if not self.taken <= self.peak or (self.cap is not None and self.peak > self.cap):
                raise AssertionError(f"{self.taken} taken, peak {self.peak}, cap {self.cap}")
            if not sum(self._held.values()) <= self.allocations:
                raise AssertionError(f"{self._held} held of {self.allocations} allocations")

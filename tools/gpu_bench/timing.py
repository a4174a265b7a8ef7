"""How long calls take: by the host's clock to the end of the wait, and by the device's own."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from edge_runtime.device.base import Stream

WARM = 20
"""Calls before the first that is timed."""


@dataclass(frozen=True)
class Times:
    """Seconds of calls that were timed one by one."""

    seconds: tuple[float, ...]

    def at(self, q: float) -> float:
        """The q-th percentile (0…100), in seconds."""
        return float(np.percentile(np.asarray(self.seconds), q))

    @property
    def ms(self) -> float:
        """The median in milliseconds."""
        return 1e3 * self.at(50)

    @property
    def us(self) -> float:
        """The median in microseconds."""
        return 1e6 * self.at(50)

    @property
    def rate(self) -> float:
        """Calls a second, one after the other."""
        return len(self.seconds) / sum(self.seconds)

    def note(self, unit: str = "ms") -> str:
        """p99 and the range, for a note."""
        scale = 1e3 if unit == "ms" else 1e6
        low, high, p99 = (scale * self.at(q) for q in (0, 100, 99))
        return f"p99 {p99:.3g}, {low:.3g} to {high:.3g} {unit}, {len(self.seconds)} times"


def times(call: Callable[[], object], count: int, warm: int = WARM) -> Times:
    """`call`, which must wait for its own end, `count` times by the host's clock."""
    for _ in range(min(warm, count)):
        call()
    clock, found = time.perf_counter, []
    for _ in range(count):
        began = clock()
        call()
        found.append(clock() - began)
    return Times(tuple(found))


def host(call: Callable[[], object], stream: Stream, count: int) -> Times:
    """Enqueue and wait, by the host's clock."""

    def waited() -> None:
        call()
        stream.synchronize()

    return times(waited, count)


def device(call: Callable[[], object], stream: Stream, count: int) -> Times:
    """What the device worked on it, between two marks on its stream."""
    found = []
    for _ in range(count):
        began = stream.mark()
        call()
        ended = stream.mark()
        stream.synchronize()
        found.append(ended.since(began))
    return Times(tuple(found))


def behind_each_other(call: Callable[[], object], stream: Stream, count: int) -> float:
    """Seconds of one call among `count` that are enqueued without a wait."""
    call()
    stream.synchronize()
    began = time.perf_counter()
    for _ in range(count):
        call()
    stream.synchronize()
    return (time.perf_counter() - began) / count


def spread(values: Sequence[float], unit: str = "") -> str:
    """Median, p95 and greatest, for a note."""
    p50, p95 = (float(np.percentile(np.asarray(values), q)) for q in (50, 95))
    return f"p50 {p50:.3g}, p95 {p95:.3g}, max {max(values):.3g} {unit}".strip()


@contextlib.contextmanager
def turns_kept() -> Iterator[None]:
    """Threads take turns afterwards as long as before: serving shortens these for the process."""
    before = sys.getswitchinterval()
    try:
        yield
    finally:
        sys.setswitchinterval(before)

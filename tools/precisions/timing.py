"""Times of several forms in turns: medians, and medians of the ratio within each turn.

They are the calling thread's time on a processor, where all of it is spent: other work on the
machine is not counted, though it still costs caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

Calls = Sequence[Callable[[], object]]
WHAT = ("encode", "draft", "step")
REPEATS = (1, 2, 6)
"""How often each is called in a turn; the least counts, what disturbs only ever adds."""


def times(forms: Mapping[str, Calls], turns: int) -> dict[str, dict[str, dict[str, float]]]:
    """For each form and each of `WHAT`: milliseconds, and how many times faster than the first."""
    found: dict[str, list[list[float]]] = {name: [] for name in forms}
    for turn in range(turns + 1):
        for name, calls in forms.items():
            row = [_least(call, n) for call, n in zip(calls, REPEATS, strict=True)]
            if turn:  # the first warms up
                found[name].append(row)
    taken = {name: np.array(rows) for name, rows in found.items()}
    base = next(iter(taken.values()))
    return {
        name: {
            what: {
                "ms": round(float(np.median(rows[:, n])), 2),
                "faster": round(float(np.median(base[:, n] / rows[:, n])), 2),
            }
            for n, what in enumerate(WHAT)
        }
        for name, rows in taken.items()
    }


def _least(call: Callable[[], object], count: int) -> float:
    found = []
    for _ in range(count):
        began = time.thread_time()
        call()
        found.append(1000 * (time.thread_time() - began))
    return min(found)

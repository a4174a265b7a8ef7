"""What a batch takes of a lane by its rows and its audio: a measured table, and what it advises."""

from __future__ import annotations

import logging
import os
import tempfile
from bisect import bisect_left
from functools import cached_property
from pathlib import Path

import msgspec

_log = logging.getLogger(__name__)

FILE = "batches.json"

STEPS = 4
"""Single steps of a typical update."""

ENOUGH = 0.95
"""Part of the best rate that a smaller batch must reach to be preferred: it waits less."""


class Cost(msgspec.Struct, frozen=True):
    """Seconds of the device for so many rows of so many samples each.

    `check` is a pass that checks a typical draft of that audio, `step` one token more a row.
    """

    rows: int
    samples: int
    encode: float
    check: float
    step: float

    @property
    def update(self) -> float:
        """A typical batch: encode, check, a few steps."""
        return self.encode + self.check + STEPS * self.step


class Costs(msgspec.Struct, frozen=True, dict=True):
    """Measured at every combination of some rows and some samples, both ascending.

    `of` says what of: what was measured on another device or for other sizes is of no use.
    Empty where batches are not weighed: they have as many rows as they may have.
    """

    of: str = ""
    table: tuple[Cost, ...] = ()

    @cached_property
    def row_sizes(self) -> tuple[int, ...]:
        return tuple(sorted({each.rows for each in self.table}))

    @cached_property
    def _known(self) -> dict[tuple[str, int, int], float]:
        """Answers so far: lengths are rounded up, so that the same few are asked for."""
        return {}

    def update(self, rows: int, samples: int) -> float:
        """Seconds of a typical batch, 0 where nothing was measured.

        That of the next larger measured number of rows: shapes are rounded up. Between two
        measured lengths it is in proportion.
        """
        key = ("update", rows, samples)
        if key not in self._known:
            self._known[key] = self._update(rows, samples)
        return self._known[key]

    def _update(self, rows: int, samples: int) -> float:
        sizes = self.row_sizes
        if not sizes:
            return 0.0
        place = min(bisect_left(sizes, rows), len(sizes) - 1)
        line = [each for each in self.table if each.rows == sizes[place]]
        return _between([(each.samples, each.update) for each in line], samples)

    def rounded(self, rows: int) -> int:
        """The next larger measured number of rows, as which so many cost; they where none is."""
        return next((size for size in self.row_sizes if size >= rows), rows)

    def best(self, samples: int, most: int) -> int:
        """Rows of such audio that a lane decodes at nearly its best rate, as few as do; 1 at least.

        At most `most`, and that where nothing was measured.
        """
        key = ("best", most, samples)
        if key not in self._known:
            self._known[key] = self._best(samples, most)
        return int(self._known[key])

    def _best(self, samples: int, most: int) -> int:
        sizes = [size for size in self.row_sizes if size <= most]
        rates = {size: size / self.update(size, samples) for size in sizes}
        if not rates:
            return most
        return min(size for size in sizes if rates[size] >= ENOUGH * max(rates.values()))

    def first(self, rows: int, samples: int) -> int:
        """Of so many rows that wait, those of the largest batch, where they take least time in all.

        A batch costs as if it were full: 24 rows may be done sooner as 16 and 8. They themselves
        where nothing was measured.
        """
        key = ("first", rows, samples)
        if key not in self._known:
            self._known[key] = self._first(rows, samples) if self.table else rows
        return int(self._known[key])

    def _first(self, rows: int, samples: int) -> int:
        least, largest = [0.0], [0]
        for count in range(1, rows + 1):
            sizes = {count, *(size for size in self.row_sizes if size < count)}
            took = {size: self.update(size, samples) + least[count - size] for size in sizes}
            size = min(sizes, key=lambda size: (took[size], -size))
            least.append(took[size])
            largest.append(max(size, largest[count - size]))
        return largest[rows]


def load(folder: Path, of: str) -> Costs | None:
    """What was measured of the same before; None where there is nothing, or nothing usable."""
    try:
        found = msgspec.json.decode((folder / FILE).read_bytes(), type=Costs)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.of == of else None


def save(costs: Costs, folder: Path) -> None:
    """Keep it beside the plans, whole or not at all; where that fails it is measured again."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{FILE}-", dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(costs)) + b"\n")
        Path(name).replace(folder / FILE)
    except OSError as error:
        _log.warning("the next start measures batches again: %s", error)


def _between(points: list[tuple[int, float]], at: int) -> float:
    """The value at a place between two points, or of the line through the nearest two."""
    if len(points) == 1:
        return points[0][1]
    place = min(max(bisect_left([x for x, _ in points], at), 1), len(points) - 1)
    (left, low), (right, high) = points[place - 1], points[place]
    return max(0.0, low + (high - low) * (at - left) / (right - left))

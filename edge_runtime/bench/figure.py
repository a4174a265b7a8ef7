"""A measured number, and the number it must reach."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Figure:
    """`value` is None where it could not be measured; `note` then says why."""

    name: str
    label: str
    value: float | None
    unit: str = ""
    note: str = ""

    def shown(self) -> str:
        """The value as a report prints it."""
        return "–" if self.value is None else f"{shown(self.value)} {self.unit}".strip()


def shown(value: float) -> str:
    """Three significant digits, or the whole number."""
    if not math.isfinite(value):
        return "∞"
    if value == round(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


@dataclass(frozen=True)
class Target:
    """A figure must be at most, or at least, `limit`."""

    figure: str
    relation: Literal["≤", "≥"]
    limit: float
    unit: str = ""

    def reached(self, value: float) -> bool:
        # a float's rounding is no miss
        slack = 1e-9 * max(1.0, abs(self.limit))
        if self.relation == "≤":
            return value <= self.limit + slack
        return value >= self.limit - slack

    def shown(self) -> str:
        return f"{self.relation} {shown(self.limit)} {self.unit}".strip()


class Figures:
    """The figures of a run, by name, in the order in which they came."""

    def __init__(self, figures: Iterable[Figure] = ()) -> None:
        self._by_name: dict[str, Figure] = {}
        for figure in figures:
            self.add(figure)

    def add(self, figure: Figure) -> None:
        self._by_name[figure.name] = figure

    def value(self, name: str) -> float | None:
        found = self._by_name.get(name)
        return found.value if found else None

    def get(self, name: str) -> Figure | None:
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Figure]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

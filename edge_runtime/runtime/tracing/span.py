"""A piece of time that something took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Place = Literal["loop", "ears", "lane", "device"]
"""The event loop, the voice detector's thread, a lane's thread, the device's work for a lane."""


@dataclass(frozen=True)
class Span:
    """`began` and `ended` are seconds of `time.perf_counter`; `lane` counts from 0.

    A `waiting` span is one in which nothing was done for it, and others may overlap it.
    """

    name: str
    place: Place
    began: float
    ended: float
    lane: int = 0
    waiting: bool = False
    about: Mapping[str, str | int | float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began

"""What sensors of a board said at one moment; whatever is not there is absent, never guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BELOW_CRITICAL = 10.0
"""K below the shutdown at which a zone is taken to throttle, where it names no such trip."""


@dataclass(frozen=True)
class Zone:
    """A place whose temperature is known, in °C; `trips` has the board's points by their kind.

    Kinds are those of Linux: "passive" slows down what makes heat, "hot" warns, "critical" shuts
    down, "active" turns on a fan. Of several of a kind the lowest is kept.
    """

    name: str
    celsius: float
    trips: Mapping[str, float] = field(default_factory=dict)

    @property
    def throttles(self) -> float | None:
        """Where the board slows down, °C; None where nothing is known of it."""
        for kind in ("passive", "hot"):
            if kind in self.trips:
                return self.trips[kind]
        critical = self.trips.get("critical")
        return None if critical is None else critical - BELOW_CRITICAL


@dataclass(frozen=True)
class Mode:
    """The power mode: its number and name, and the part of the GPU's clock that it allows."""

    number: int
    name: str
    gpu_share: float | None = None


@dataclass(frozen=True)
class Clock:
    """How fast something runs now, Hz; `load` is its busy part from 0 to 1."""

    hertz: float | None = None
    load: float | None = None


@dataclass(frozen=True)
class Fan:
    """How fast a fan turns: revolutions a minute, and the part from 0 to 1 of what it is given."""

    rpm: float | None = None
    share: float | None = None


@dataclass(frozen=True)
class Readings:
    """All sensors at second `at` of a monotonic clock.

    `rails` are watts by name, `board` those of the rails that together feed all of it, None where
    it is not known which these are. `joules` is a counter of the processor's own, by name.
    `throttled` names what the board itself slows down at this moment.
    """

    at: float
    zones: tuple[Zone, ...] = ()
    rails: Mapping[str, float] = field(default_factory=dict)
    board: float | None = None
    joules: Mapping[str, float] = field(default_factory=dict)
    gpu: Mapping[str, Clock] = field(default_factory=dict)
    memory: Clock | None = None
    mode: Mode | None = None
    fans: Mapping[str, Fan] = field(default_factory=dict)
    throttled: tuple[str, ...] = ()
    jetson: bool = False

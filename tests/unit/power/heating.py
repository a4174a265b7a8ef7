"""A board whose heat follows our load: a heatsink in air, and a die that is warmer than it.

    τ · dT/dt = ambient + R · P − T,   P = idle + ours · (share of our work that limits leave)
    5 s · dD/dt = r · P − D,           what is seen is T + D

Our work is updates: partials, which come `hop` times as seldom, and finals, which do not change.
Steady states of real boards are public (see tests/data/power): an Orin NX took 4.6 W at 58 °C and
29 W at 91 °C after 45 minutes, so R is 1.35 K/W; how fast they get there is not, so τ is drawn
from a minute to a quarter of an hour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from edge_runtime.config import Power
from edge_runtime.power import FULL, Limits, Readings, govern
from edge_runtime.power.govern import WINDOW
from edge_runtime.power.readings import Zone

DIE = 5.0
"""Seconds that a die takes to follow."""

FINALS = 0.2
"""Part of our work that limits leave alone: finals and what waits for them."""


@dataclass(frozen=True)
class Board:
    """Watts, K/W, seconds, °C."""

    ambient: float = 25.0
    resistance: float = 1.35
    tau: float = 200.0
    idle: float = 5.0
    ours: float = 25.0
    throttles: float = 99.0
    grain: float = 0.5
    """The sensor's steps."""
    die: float = 0.1
    """K/W between die and heatsink."""

    def steady(self, hop: float = 1.0, ours: float | None = None) -> float:
        """Where it ends up, °C."""
        asked = 1.0 if ours is None else ours / self.ours
        watts = self.watts(hop, asked)
        return self.ambient + (self.resistance + self.die) * watts

    def watts(self, hop: float, asked: float) -> float:
        """What it takes, where clients ask for such a part of the load."""
        return self.idle + self.ours * asked * (FINALS + (1 - FINALS) / hop)


def zones(celsius: float, throttles: float = 99.0) -> tuple[Zone, ...]:
    return (Zone("tj-thermal", celsius, {"passive": throttles, "critical": throttles + 5.5}),)


@dataclass(frozen=True)
class Moment:
    at: float
    celsius: float
    limits: Limits


def run(board: Board, seconds: float, power: Power | None = None, load=None, start=None):
    """The board under our load, governed; `load(at)` is the part of it that clients ask for.

    It is looked at every 4 s, half as often as by default: no better for the governor.
    """
    power = power or Power(period_seconds=4.0)
    step = power.period_seconds
    die = board.die * board.idle
    sink = (board.steady(ours=0.0) if start is None else start) - die
    limits, recent, moments = FULL, [], []
    for count in range(int(seconds / step)):
        at = count * step
        asked = 1.0 if load is None else load(at)
        watts = board.watts(limits.hop, asked)
        sink += (board.ambient + board.resistance * watts - sink) * step / board.tau
        die += (board.die * watts - die) * (1 - math.exp(-step / DIE))
        celsius = sink + die
        seen = round(celsius / board.grain) * board.grain
        recent = [*recent[-int(WINDOW / step) :], Readings(at, zones(seen, board.throttles))]
        limits = govern(recent, limits, power)
        moments.append(Moment(at, celsius, limits))
    return moments


def follow(curve, power: Power | None = None, throttles: float = 99.0, **said):
    """Limits along a recorded curve: (second, °C) pairs that they do not change."""
    power = power or Power()
    limits, recent, found = FULL, [], []
    for at, celsius in curve:
        now = replace(Readings(at, zones(celsius, throttles)), **said)
        recent = [*[each for each in recent if at - each.at <= WINDOW], now]
        limits = govern(recent, limits, power)
        found.append(Moment(at, celsius, limits))
    return found


def changes(moments) -> list[float]:
    """Seconds at which limits changed."""
    levels = [0, *(each.limits.level for each in moments)]
    return [
        each.at
        for before, each in zip(levels, moments, strict=False)
        if each.limits.level != before
    ]

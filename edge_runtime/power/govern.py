"""Give way before the board has to: limits from readings, by arithmetic alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edge_runtime.config import Power
from edge_runtime.power.limits import LANES, LEVELS, Limits, hop_of
from edge_runtime.power.readings import Readings

WINDOW = 30.0
"""Seconds of readings that a slope is taken from."""

AHEAD = 60.0
"""Seconds that a rise is followed into the future: a change of limits has to wait as long."""

STEPS = (1.0, 0.8, 0.6, 0.4, 0.2)
"""Parts of the margin below which each level begins."""

LATER = 900.0
"""Seconds: the longest wait before limits are relaxed again, and how soon a relapse is one."""

FRUGAL = 0.5
"""A power mode that leaves the GPU less than this part of its clock is meant to save."""


@dataclass(frozen=True)
class Room:
    """K that are left below where a zone throttles, when its rise went on for a while."""

    kelvin: float
    zone: str
    celsius: float
    throttles: float
    slope: float

    def __str__(self) -> str:
        rise = f", {60 * self.slope:+.1f} K a minute" if abs(self.slope) >= 0.01 else ""
        return f"{self.zone} is at {self.celsius:.1f} °C{rise}; it throttles at {self.throttles:g}"


def govern(recent: Sequence[Readings], before: Limits, power: Power) -> Limits:
    """The limits from now on, which is the last of `recent`, oldest first; `before` rule till now.

    Stricter, by as many levels as it takes, when there is little room below the throttle point;
    easier, by one level, when there is more of it than that by `hysteresis`. From one change to
    the next at least `hold_seconds` pass. Where heat returns soon after limits were relaxed, the
    next time waits twice as long, up to `LATER`: no board is rocked for ever. A board that says
    itself that it throttles gets the last level. Without sensors there are no limits.
    """
    now = recent[-1]
    room = tightest(recent, power.throttle_celsius)
    wanted, why = _wanted(now, room, power, 0.0)
    kept, kept_why = _wanted(now, room, power, power.hysteresis)
    hold = power.hold_seconds
    waited, patience = now.at - before.since, max(before.patience, hold)
    if wanted > before.level:
        if waited < hold:
            return before
        if waited >= LATER:
            patience = hold
        elif before.relaxed:
            patience = min(2 * patience, max(LATER, hold))
        return _at(wanted, why, now.at, patience, power)
    if kept < before.level and waited >= patience:
        level = before.level - 1
        why = kept_why or (f"cooler: {room}" if room else "no sensor tells of heat")
        easier = _at(level, why if level else None, now.at, patience, power)
        return replace(easier, relaxed=True)
    return before


def _at(level: int, why: str | None, since: float, patience: float, power: Power) -> Limits:
    return Limits(level, hop_of(level, power.slowest), LANES[level], why, since, patience)


def tightest(recent: Sequence[Readings], throttles: float = 0.0) -> Room | None:
    """The zone of the last readings with the least room; None where none tells where it throttles.

    `throttles` °C replaces what the zones say, if it is not 0.
    """
    now = recent[-1]
    rooms = []
    for zone in now.zones:
        point = throttles or zone.throttles
        if not zone.trips or point is None:
            continue
        slope = _slope(recent, zone.name, now.at)
        ahead = zone.celsius + AHEAD * max(slope, 0.0)
        rooms.append(Room(point - ahead, zone.name, zone.celsius, point, slope))
    return min(rooms, key=lambda room: room.kelvin, default=None)


def _wanted(now: Readings, room: Room | None, power: Power, spare: float) -> tuple[int, str | None]:
    """The level that is asked for, with so many K to spare, and what asks for it."""
    if now.throttled:
        return LEVELS, f"the board throttles: {', '.join(now.throttled)}"
    level, why = 0, None
    if room is not None:
        level = sum(room.kelvin < power.margin * step + spare for step in STEPS)
        why = str(room)
    mode = now.mode
    if not level and power.modes and mode is not None and (mode.gpu_share or 1.0) < FRUGAL:
        return 1, f"power mode {mode.name} leaves the GPU {mode.gpu_share:.0%} of its clock"
    return level, why if level else None


def _slope(recent: Sequence[Readings], name: str, now: float) -> float:
    """K a second of a zone by least squares; 0 until there is half a window to tell it from."""
    points = [
        (readings.at - now, zone.celsius)
        for readings in recent
        if now - readings.at <= WINDOW
        for zone in readings.zones
        if zone.name == name
    ]
    if len(points) < 3 or points[0][0] > -WINDOW / 2:
        return 0.0
    count = len(points)
    middle = sum(at for at, _ in points) / count
    mean = sum(celsius for _, celsius in points) / count
    spread = sum((at - middle) ** 2 for at, _ in points)
    return sum((at - middle) * (celsius - mean) for at, celsius in points) / spread

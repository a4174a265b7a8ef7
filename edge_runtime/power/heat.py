"""Temperatures: the kernel's thermal zones, sensors on chips, and what is slowed down already."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.power.files import entries, number, text
from edge_runtime.power.readings import Zone

LIKELY = (-40.0, 150.0)
"""°C that a working sensor can mean; boards say −256 of one that is off."""

TRIPS = (40.0, 150.0)
"""°C that a trip can mean; some that are not set say 0 or −274."""

CHIPS = {"coretemp": "Package", "k10temp": "Tctl", "zenpower": "Tdie", "tmp451": ""}
"""Sensor chips that are read, and how the labels of their channels begin that are."""

ALERT = "-throttle-alert"
"""How cooling devices end that say what is slowed down; a hot surface is another's alert."""

IGNORED = re.compile(r"pmic|iwlwifi|battery", re.IGNORECASE)
"""Zones that say nothing of the processor: a PMIC's is one number whatever the heat."""


@dataclass(frozen=True)
class _Probe:
    name: str
    path: Path
    trips: dict[str, float]


class Heat:
    """What there is to read under `sysfs`, found once."""

    def __init__(self, sysfs: Path) -> None:
        thermal = sysfs / "class/thermal"
        self._probes = [
            probe
            for found in (
                *map(_zone, entries(thermal, "thermal_zone")),
                *(probe for chip in entries(sysfs / "class/hwmon") for probe in _chip(chip)),
            )
            if (probe := found) is not None
        ]
        self._alerts = [
            (kind.removesuffix(ALERT), device / "cur_state")
            for device in entries(thermal, "cooling_device")
            if (kind := text(device / "type")) is not None and kind.endswith(ALERT)
        ]

    def zones(self) -> tuple[Zone, ...]:
        """Those that answer now."""
        found = []
        for probe in self._probes:
            celsius = number(probe.path, 1e-3)
            if celsius is not None and LIKELY[0] <= celsius <= LIKELY[1]:
                found.append(Zone(probe.name, celsius, probe.trips))
        return tuple(found)

    def throttled(self) -> tuple[str, ...]:
        """What the board slows down now, by its own account."""
        return tuple(name for name, state in self._alerts if (number(state) or 0) > 0)


def _zone(folder: Path) -> _Probe | None:
    name = text(folder / "type")
    if name is None or IGNORED.search(name):
        return None
    trips: dict[str, float] = {}
    for place in folder.glob("trip_point_*_temp"):
        kind = text(place.with_name(place.name.replace("_temp", "_type")))
        _keep(trips, kind, number(place, 1e-3))
    return _Probe(name, folder / "temp", trips)


def _chip(folder: Path) -> list[_Probe]:
    name = text(folder / "name")
    if name is None or name not in CHIPS:
        return []
    found = []
    for place in sorted(folder.glob("temp*_input")):
        channel = place.name.removesuffix("_input")
        label = text(folder / f"{channel}_label") or ""
        if not label.startswith(CHIPS[name]):
            continue
        trips: dict[str, float] = {}
        _keep(trips, "critical", number(folder / f"{channel}_crit", 1e-3))
        found.append(_Probe(f"{name} {label or channel}", place, trips))
    return found


def _keep(trips: dict[str, float], kind: str | None, celsius: float | None) -> None:
    if kind is not None and celsius is not None and TRIPS[0] <= celsius <= TRIPS[1]:
        trips[kind] = min(celsius, trips.get(kind, celsius))

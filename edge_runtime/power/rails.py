"""Watts: INA3221 and INA238 monitors of a board, and the energy that a PC's processor counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from edge_runtime.power.files import entries, number, text

INPUTS = (
    frozenset({"VIN"}),
    frozenset({"VDD_IN"}),
    frozenset({"POM_5V_IN"}),
    frozenset({"VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"}),
    frozenset({"VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"}),
    frozenset({"GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"}),
)
"""Rails that together feed a whole board, the first set whose rails are all there.

In this order: Thor's carrier (INA238), Orin Nano and NX and Xavier NX, Nano, AGX Orin, Thor's
module, AGX Xavier. Other rails are fed by these, and would be counted twice.
"""

Watts = Callable[[], float | None]


class Rails:
    """The monitors under `sysfs`, found once."""

    def __init__(self, sysfs: Path) -> None:
        self._rails: dict[str, Watts] = {}
        for chip in entries(sysfs / "class/hwmon"):
            if (text(chip / "name") or "").startswith("ina"):
                self._rails.update(_monitor(chip))
        for driver in ("ina3221x", "ina3221"):
            for device in entries(sysfs / "bus/i2c/drivers" / driver):
                for folder in entries(device, "iio:device"):
                    self._rails.update(_older(folder))
        self._counters = {
            text(folder / "name") or folder.name: folder
            for folder in entries(sysfs / "class/powercap", "intel-rapl:")
            if folder.name.count(":") == 1
        }

    def watts(self) -> dict[str, float]:
        """Of each rail that answers now."""
        found = {name: read() for name, read in self._rails.items()}
        return {name: watts for name, watts in found.items() if watts is not None}

    def joules(self) -> dict[str, float]:
        """What each processor package counted so far; now and then it begins anew.

        Where the kernel keeps that from us, as most do, there is none.
        """
        found = {name: number(path / "energy_uj", 1e-6) for name, path in self._counters.items()}
        return {name: joules for name, joules in found.items() if joules is not None}


def board(rails: Mapping[str, float]) -> float | None:
    """Watts of all of it, None where it is not known which rails these are."""
    for inputs in INPUTS:
        if inputs <= rails.keys():
            return sum(rails[name] for name in inputs)
    return None


def _monitor(folder: Path) -> dict[str, Watts]:
    """The channels of a monitor that the kernel's own driver shows.

    Channels without a current are none of their own: a sum, or a shunt.
    """
    found: dict[str, Watts] = {}
    for label in sorted(folder.glob("in*_label")):
        channel = label.name.removeprefix("in").removesuffix("_label")
        if (folder / f"curr{channel}_input").exists():
            _add(found, text(label), _product(folder, channel))
    if not found and (folder / "power1_input").exists():
        name = text(folder / "label") or text(folder / "in1_label")
        _add(found, name, _value(folder / "power1_input", 1e-6))
    return found


def _older(folder: Path) -> dict[str, Watts]:
    """The channels of a monitor as kernel 4.9 of L4T shows them."""
    found: dict[str, Watts] = {}
    for label in sorted(folder.glob("rail_name_*")):
        channel = label.name.removeprefix("rail_name_")
        _add(found, text(label), _value(folder / f"in_power{channel}_input", 1e-3))
    return found


def _add(found: dict[str, Watts], name: str | None, watts: Watts) -> None:
    """Keep a rail, if it is one: NC is not connected."""
    if name is not None and not re.search(r"\bNC\b|shunt", name):
        found[name] = watts


def _product(folder: Path, channel: str) -> Watts:
    """Millivolts times milliamperes."""

    def watts() -> float | None:
        volts = number(folder / f"in{channel}_input", 1e-3)
        amperes = number(folder / f"curr{channel}_input", 1e-3)
        return None if volts is None or amperes is None else volts * amperes

    return watts


def _value(path: Path, scale: float) -> Watts:
    return lambda: number(path, scale)

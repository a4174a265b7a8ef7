"""Clocks, loads and fans: of a GPU and its memory by devfreq, of fans by their controllers."""

from __future__ import annotations

import re
from pathlib import Path

from edge_runtime.power.files import entries, number, text
from edge_runtime.power.readings import Clock, Fan

GPU = re.compile(r"(^|\.)(gpu|ga10b|gv11b|gp10b|gm20b)$|^gpu-gpc-\d+$")
"""How the GPUs of Jetsons are called among devfreq's devices, Nano to Thor."""

LOADS = ("devices/gpu.0/load", "devices/platform/gpu.0/load")
"""Where a GPU's load is besides its own folder, in thousandths."""

MEMORY = ("class/devfreq/bwmgr/cur_freq", "kernel/debug/bpmp/debug/clk/emc/rate")
"""Where the memory controller's clock is: the second is root's alone."""


class Clocks:
    """What there is under `sysfs`, found once."""

    def __init__(self, sysfs: Path) -> None:
        self._gpus = [
            folder for folder in entries(sysfs / "class/devfreq") if GPU.search(folder.name)
        ]
        self._loads = {
            folder: next((p for p in _loads(sysfs, folder) if p.exists()), None)
            for folder in self._gpus
        }
        self._memory = [path for place in MEMORY if _there(path := sysfs / place)]
        self._fans = [folder for folder in entries(sysfs / "class/hwmon") if _turns(folder)]

    def gpu(self) -> dict[str, Clock]:
        """Each part of the GPU that has a clock of its own."""
        found = {}
        for folder in self._gpus:
            path = self._loads[folder]
            hertz = number(folder / "cur_freq")
            load = None if path is None else number(path, 1e-3)
            if hertz is not None or load is not None:
                found[folder.name] = Clock(hertz, load)
        return found

    @property
    def fastest(self) -> float | None:
        """Hz of the GPU's highest clock in whatever power mode; None where it is not told."""
        for folder in self._gpus:
            listed = (text(folder / "available_frequencies") or "").split()
            if listed and all(each.isdigit() for each in listed):
                return float(max(map(int, listed)))
        return None

    def memory(self) -> Clock | None:
        """The memory controller (EMC)."""
        for path in self._memory:
            hertz = number(path)
            if hertz is not None:
                return Clock(hertz)
        return None

    def fans(self) -> dict[str, Fan]:
        """Each controller that is given a share or counts turns; boards may have one for each."""
        found = {}
        for folder in self._fans:
            rpm = number(folder / "fan1_input")
            rpm = number(folder / "rpm") if rpm is None else rpm
            share = number(folder / "pwm1", 1 / 255)
            if rpm is not None or share is not None:
                found[text(folder / "name") or folder.name] = Fan(rpm, share)
        return found


def _loads(sysfs: Path, folder: Path) -> list[Path]:
    return [folder / "device/load", *(sysfs / place for place in LOADS)]


def _turns(folder: Path) -> bool:
    return any(_there(folder / name) for name in ("pwm1", "rpm", "fan1_input"))


def _there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a folder that is root's alone
        return False

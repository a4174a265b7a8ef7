"""Heat and power of the board: sensors that say what is, limits that follow from it."""

from __future__ import annotations

from edge_runtime.config import Power
from edge_runtime.power.base import Reader
from edge_runtime.power.govern import govern
from edge_runtime.power.limits import FULL, Limits
from edge_runtime.power.readings import Readings

__all__ = ["FULL", "Limits", "Reader", "Readings", "govern", "open_reader"]


def open_reader(power: Power) -> Reader:
    """The reader that the settings name; raises `MissingExtra` where it is not installed."""
    if power.reader == "jtop":
        from edge_runtime.power.jtop import Jtop

        return Jtop(power.root)
    from edge_runtime.power.sysfs import Sysfs

    return Sysfs(power.root)

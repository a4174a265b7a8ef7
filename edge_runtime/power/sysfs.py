"""All sensors that the kernel shows as files."""

from __future__ import annotations

from pathlib import Path

from edge_runtime.power.clocks import Clocks
from edge_runtime.power.files import text
from edge_runtime.power.heat import Heat
from edge_runtime.power.mode import Modes
from edge_runtime.power.rails import Rails, board
from edge_runtime.power.readings import Readings

AGAIN = 300.0
"""Seconds after which it is looked anew for what there is: drivers come late, modes change."""


class Sysfs:
    """Reads what is below `root`: /sys, and of nvpmodel /etc and /var.

    Never raises for a sensor: one that is not there, or does not answer, is absent.
    """

    def __init__(self, root: Path | str = "/") -> None:
        self._root = Path(root)
        self._look(0.0)

    def read(self, at: float) -> Readings:
        """What they say now, which is second `at` of the caller's monotonic clock."""
        if at - self._looked > AGAIN:
            self._look(at)
        rails = self._rails.watts()
        return Readings(
            at=at,
            zones=self._heat.zones(),
            rails=rails,
            board=board(rails),
            joules=self._rails.joules(),
            gpu=self._clocks.gpu(),
            memory=self._clocks.memory(),
            mode=self._modes.now(),
            fans=self._clocks.fans(),
            throttled=self._heat.throttled(),
            jetson=self._jetson,
        )

    def close(self) -> None:
        """Nothing is kept open."""

    def _look(self, at: float) -> None:
        sysfs = self._root / "sys"
        self._looked = at
        self._heat, self._rails, self._clocks = Heat(sysfs), Rails(sysfs), Clocks(sysfs)
        self._modes = Modes(self._root, self._clocks.fastest)
        compatible = text(sysfs / "firmware/devicetree/base/compatible") or ""
        self._jetson = "nvidia,tegra" in compatible

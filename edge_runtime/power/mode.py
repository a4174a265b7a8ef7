"""The power mode of a Jetson, from the files of nvpmodel."""

from __future__ import annotations

import re
from pathlib import Path

from edge_runtime.power.files import text
from edge_runtime.power.readings import Mode

STATUS = "var/lib/nvpmodel/status"
MODES = "etc/nvpmodel.conf"

_NOW = re.compile(r"^pmode:(\d+)", re.M)
_BEGIN = re.compile(r"^<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=(\S+?)\s*>", re.M)
_CAP = re.compile(r"^GPU\w*\s+MAX_FREQ\s+(-?\d+)", re.M)


class Modes:
    """The list of modes below `root`, read once; `fastest` is the GPU's highest clock, Hz."""

    def __init__(self, root: Path, fastest: float | None) -> None:
        self._status = root / STATUS
        listed = text(root / MODES) or ""
        best = max([*map(float, _CAP.findall(listed)), fastest or 0.0])
        begins = list(_BEGIN.finditer(listed))
        ends = [*(each.start() for each in begins[1:]), len(listed)]
        self._modes = {}
        for begin, end in zip(begins, ends, strict=False):
            cap = _CAP.search(listed, begin.end(), end)
            share = None if cap is None else _share(float(cap[1]), best)
            self._modes[int(begin[1])] = Mode(int(begin[1]), begin[2], share)

    def now(self) -> Mode | None:
        """The mode that was chosen.

        A board that was never asked for one has no status, and a mode that its list does not
        have is none.
        """
        chosen = _NOW.search(text(self._status) or "")
        return None if chosen is None else self._modes.get(int(chosen[1]))


def _share(cap: float, best: float) -> float | None:
    """A cap of −1 is no cap."""
    if cap < 0:
        return 1.0
    return cap / best if best > 0 else None

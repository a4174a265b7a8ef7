"""The machine an engine is built for or loaded on: its GPU, its software, its free memory."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.device.cuda import Driver, open_driver, present
from edge_runtime.errors import EdgeRuntimeError


@dataclass(frozen=True)
class Board:
    """`capability` is None without a GPU that works; `trouble` says why one does not.

    `free` is bytes that a build may take.
    """

    capability: tuple[int, int] | None
    gpu: str
    l4t: str
    driver: str
    free: int
    host: str
    trouble: str = ""


def board(gpu: int | Driver) -> Board:
    """This machine, now; `gpu` is the number of its GPU, or the driver that one is open with."""
    if not isinstance(gpu, int):
        return _board(gpu)
    if not present():
        return _board(None)
    try:
        opened = open_driver(gpu)
    except EdgeRuntimeError as error:
        return _board(None, str(error))
    try:
        return _board(opened)
    finally:
        opened.close()


def _board(driver: Driver | None, trouble: str = "") -> Board:
    # On a Jetson the GPU takes from the same memory, and its own figure leaves out what
    # the system would give back.
    free = _available(_read("/proc/meminfo"))
    if driver is not None and not driver.integrated:
        free = min(free, driver.free()[0])
    return Board(
        capability=None if driver is None else driver.capability,
        gpu="" if driver is None else driver.name,
        l4t=_l4t(_read("/etc/nv_tegra_release")),
        driver=_version(_read("/proc/driver/nvidia/version")),
        free=free,
        host=platform.node(),
        trouble=trouble,
    )


def _read(path: str) -> str:
    file = Path(path)
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def _available(meminfo: str) -> int:
    """Bytes that programs may still take."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _l4t(release: str) -> str:
    """`36.4.3` of `# R36 (release), REVISION: 4.3, …`; empty on other machines."""
    found = re.search(r"R(\d+) \(release\), REVISION: ([\d.]+)", release)
    return f"{found[1]}.{found[2]}" if found else ""


def _version(driver: str) -> str:
    found = re.search(r"(\d+\.\d+(?:\.\d+)?)", driver)
    return found[1] if found else ""

"""The machine an engine is built for or loaded on: its GPU, its software, its free memory."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_runtime.errors import EdgeRuntimeError


@dataclass(frozen=True)
class Board:
    """`capability` is None without a GPU; `free` is bytes that a build may take."""

    capability: tuple[int, int] | None
    gpu: str
    l4t: str
    driver: str
    free: int
    host: str


def board() -> Board:
    """This machine, now. The GPU is asked only where a CUDA driver answers."""
    driver = _driver()
    available = _available(_read("/proc/meminfo"))
    return Board(
        capability=tuple(driver.capability) if driver else None,
        gpu=str(driver.name) if driver else "",
        l4t=_l4t(_read("/etc/nv_tegra_release")),
        driver=_version(_read("/proc/driver/nvidia/version")),
        free=available if driver is None or driver.integrated else min(available, driver.free()[0]),
        host=platform.node(),
    )


def _driver() -> Any:
    if importlib.util.find_spec("edge_runtime.device.cuda") is None:
        return None
    try:
        return importlib.import_module("edge_runtime.device.cuda").open_driver()
    except EdgeRuntimeError:
        return None


def _read(path: str) -> str:
    file = Path(path)
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def _available(meminfo: str) -> int:
    """Bytes that programs may still take: on a Jetson the GPU takes from the same."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _l4t(release: str) -> str:
    """`36.4.3` of `# R36 (release), REVISION: 4.3, …`; empty on other machines."""
    found = re.search(r"R(\d+) \(release\), REVISION: ([\d.]+)", release)
    return f"{found[1]}.{found[2]}" if found else ""


def _version(driver: str) -> str:
    found = re.search(r"(\d+\.\d+(?:\.\d+)?)", driver)
    return found[1] if found else ""

"""The machine and the versions that a figure belongs to."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

_PACKAGES = ("edge-runtime", "onnxruntime", "numpy", "aiohttp", "jiwer", "whisper-normalizer")


@dataclass(frozen=True)
class Hardware:
    """What ran the bench; `cores` are those this process may use."""

    cpu: str
    cores: int
    memory_gb: float
    board: str
    system: str
    python: str
    versions: dict[str, str]

    def line(self) -> str:
        """One line for the top of a report."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        board = f"{self.board}, " if self.board else ""
        return (
            f"{board}{self.cpu}, {self.cores} cores, {self.memory_gb:.1f} GB, {self.system}, "
            f"Python {self.python}, {versions}"
        )

    def record(self) -> dict[str, object]:
        return asdict(self)


def _read(path: str) -> str:
    file = Path(path)
    return file.read_text(encoding="utf-8", errors="replace").strip("\0\n") if file.exists() else ""


def cpu_name(cpuinfo: str) -> str:
    """The processor's name in the text of /proc/cpuinfo, or what the system calls it."""
    for key in ("model name", "Model", "Hardware", "CPU part"):
        found = re.search(rf"^{key}\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
        if found:
            return found.group(1).strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Of the packages that decide a figure, those that are installed."""
    found: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def hardware() -> Hardware:
    """Of this machine, now."""
    release = _read("/etc/os-release")
    name = re.search(r'^PRETTY_NAME="?([^"\n]+)', release, re.MULTILINE)
    system = name.group(1) if name else platform.system()
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Hardware(
        cpu=cpu_name(_read("/proc/cpuinfo")),
        cores=len(mine) or os.cpu_count() or 1,
        memory_gb=round(pages / 2**30, 1),
        board=_read("/proc/device-tree/model"),
        system=f"{system}, {platform.system()} {platform.release()}",
        python=platform.python_version(),
        versions=versions(),
    )

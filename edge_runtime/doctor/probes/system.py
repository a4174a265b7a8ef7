"""Python, the user, memory and the clock."""

from __future__ import annotations

import re
from pathlib import Path

from edge_runtime.doctor.facts import Python, System, User
from edge_runtime.doctor.machine import Machine

_SYNCHRONISED = "/run/systemd/timesync/synchronized"


def python(machine: Machine, config: str) -> Python:
    """The interpreter."""
    return machine.python()


def user(machine: Machine, config: str) -> User:
    """Who asks."""
    return machine.user()


def system(machine: Machine, config: str) -> System:
    """Memory from /proc/meminfo; the newest date that is past is that of our own files."""
    meminfo = machine.text("/proc/meminfo")
    follows = machine.path(_SYNCHRONISED).parent.is_dir()
    return System(
        memory=_bytes(meminfo, "MemTotal"),
        available=_bytes(meminfo, "MemAvailable"),
        now=machine.now(),
        newest=Path(__file__).stat().st_mtime if str(machine.root) == "/" else 0.0,
        synchronised=machine.path(_SYNCHRONISED).exists() if follows else None,
    )


def _bytes(meminfo: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0

"""Python, memory and the clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

from edge_runtime.doctor.base import Finding, error, ok, warning
from edge_runtime.doctor.facts import Facts

OLDEST = (3, 10)
SCARCE, LITTLE = 400 << 20, 1 << 30
"""Bytes of memory with which the default model does not run, and with which it has no room."""


def python(facts: Facts) -> Iterator[Finding]:
    """Its version; what it does not see is told where it is missed."""
    found = facts.python
    if found is None:
        return
    version = ".".join(map(str, found.version))
    if found.version[:2] < OLDEST:
        yield error(
            "python",
            f"Python {version} is too old",
            "Python 3.10 is the oldest that the program and its packages are made for.",
            "python3.10 -m venv .venv (on a Jetson: JetPack 6 or later has it)",
        )
        return
    place = " in a venv" if found.venv else ""
    yield ok("python", f"{version}{place}, {found.machine}")


def memory(facts: Facts) -> Iterator[Finding]:
    """What is left of it now."""
    system = facts.system
    if system is None or not system.memory:
        return
    left = f"{_gb(system.available)} of {_gb(system.memory)} GB are free"
    if system.available < LITTLE:
        make = error if system.available < SCARCE else warning
        yield make(
            "memory",
            f"only {left}",
            "The default model takes about half a GB, and building an engine more than one.",
            "sudo systemctl isolate multi-user.target (ends the desktop), or end other programs",
        )
    else:
        yield ok("memory", left)


def clock(facts: Facts) -> Iterator[Finding]:
    """Certificates, downloads and logs go by it."""
    system = facts.system
    if system is None:
        return
    date = datetime.fromtimestamp(system.now, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    if system.now < system.newest:
        yield error(
            "clock",
            f"the clock says {date}, which is before this program was installed",
            "Certificates seem not to be valid yet, so pull and TLS fail; a board without a "
            "battery forgets the time.",
            "sudo timedatectl set-ntp true",
        )
    elif system.synchronised is False:
        yield warning(
            "clock",
            f"{date}, not synchronised since the start",
            "It may be off: certificates and the times in logs go by it.",
            "timedatectl timesync-status",
        )
    else:
        yield ok("clock", date)


def _gb(size: int) -> str:
    return f"{size / (1 << 30):.1f}"

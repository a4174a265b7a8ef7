"""What a process has used: processor time and memory, from /proc."""

from __future__ import annotations

import os
import re
from pathlib import Path


def machine() -> float | None:
    """Seconds of processor time that everybody on this machine has used, and what hosts it.

    None where the system has no /proc/stat.
    """
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return None
    user, nice, system, _, _, *others = map(int, first.split()[1:9])
    return (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")


class Process:
    """A running process; every reading is None where the system has no /proc."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._root = Path("/proc") / str(pid)

    def cpu(self) -> float | None:
        """Seconds of processor time of all its threads, user and system."""
        text = self._read("stat")
        if text is None:
            return None
        # the name, in parentheses, may hold spaces and parentheses itself
        fields = text[text.rindex(")") + 2 :].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int | None:
        """Resident bytes now."""
        return self._status("VmRSS")

    def peak(self) -> int | None:
        """The most resident bytes so far."""
        return self._status("VmHWM")

    def _status(self, key: str) -> int | None:
        text = self._read("status")
        found = re.search(rf"^{key}:\s+(\d+) kB", text, re.MULTILINE) if text else None
        return int(found.group(1)) * 1024 if found else None

    def _read(self, name: str) -> str | None:
        try:
            return (self._root / name).read_text(encoding="utf-8")
        except OSError:
            return None

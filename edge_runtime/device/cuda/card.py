"""Memory as the machine tells of it, also before there is a context to ask the GPU in."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
from pathlib import Path

_PROCESS = Path("/proc/self/statm")
_MACHINE = Path("/proc/meminfo")
_AVAILABLE = "MemAvailable:"
_GROUP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")

_log = logging.getLogger(__name__)


def resident() -> int:
    """Bytes of this process that lie in the memory of the host; 0 where nobody says."""
    try:
        return int(_PROCESS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def free_on_card(bus: str, integrated: bool) -> int | None:
    """Bytes that are free on the GPU at that PCI bus id; None where nobody says.

    A card is asked through NVML, which newer cuda-bindings have. An `integrated` GPU has the
    memory of the machine; what this process is `resident` in counts as free there, so that two
    answers differ by what went to the GPU alone.
    """
    return _of_machine() if integrated else _of_card(bus)


def available() -> int | None:
    """Bytes of the machine's memory that this process can have; None where nobody says.

    A service or a container may be left less of it than there is: see `_of_groups`.
    """
    machine = _unused()
    return None if machine is None else min([machine, *_of_groups()])


def _of_groups() -> list[int]:
    """Bytes that the control groups (version 2) of this process have left, where one is bounded."""
    try:
        own = Path(_GROUP.read_text().rpartition("::")[2].strip().lstrip("/"))
    except OSError:
        return []
    left: list[int] = []
    for group in (_GROUPS / each for each in (own, *own.parents)):
        with contextlib.suppress(OSError, ValueError):  # "max", or the root, which has no bound
            most = int((group / "memory.max").read_text())
            taken = int((group / "memory.current").read_text())
            rows = (line.split() for line in (group / "memory.stat").read_text().splitlines())
            cached = {row[0]: int(row[1]) for row in rows}.get("inactive_file", 0)
            left.append(max(0, most - taken + cached))
    return left


def _unused() -> int | None:
    try:
        lines = _MACHINE.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(_AVAILABLE)]
    return int(found[0]) << 10 if found else None


def _of_machine() -> int | None:
    unused = _unused()
    return None if unused is None else unused + resident()


def _of_card(bus: str) -> int | None:
    if importlib.util.find_spec("cuda.bindings.nvml") is None:
        return None
    from cuda.bindings import nvml

    try:
        nvml.init_v2()
        try:
            handle = nvml.device_get_handle_by_pci_bus_id_v2(bus)
            return int(nvml.device_get_memory_info_v2(handle).free)
        finally:
            nvml.shutdown()
    except (RuntimeError, AttributeError, nvml.NvmlError) as error:  # no library, another one
        _log.debug("NVML does not say what is free: %s", error)
        return None

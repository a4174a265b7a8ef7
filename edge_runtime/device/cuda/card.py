"""Memory as the machine tells of it, also before there is a context to ask the GPU in."""

from __future__ import annotations

import importlib.util
import logging
import os
from pathlib import Path

_PROCESS = Path("/proc/self/statm")
_MACHINE = Path("/proc/meminfo")
_AVAILABLE = "MemAvailable:"

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


def _of_machine() -> int | None:
    try:
        lines = _MACHINE.read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(_AVAILABLE)]
    return (int(found[0]) << 10) + resident() if found else None


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

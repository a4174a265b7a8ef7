"""What the service of jetson-stats tells besides: it runs as root, and sees what we may not."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edge_runtime.errors import MissingExtra
from edge_runtime.power.rails import board
from edge_runtime.power.readings import Clock, Mode, Readings
from edge_runtime.power.sysfs import Sysfs

_log = logging.getLogger(__name__)


class Jtop:
    """The kernel's files, completed by jtop: rails, memory clock and power mode where they lack.

    Trip points are only in the files. Where the service does not answer, the files are all.
    """

    def __init__(self, root: Path | str = "/", connect: Callable[[], Any] | None = None) -> None:
        """`connect` gives an open `jtop.jtop`. Raises `MissingExtra` without jetson-stats."""
        self._files = Sysfs(root)
        self._service: Any = None
        try:
            self._service = (connect or _connect)()
        except MissingExtra:
            raise
        except Exception as error:  # noqa: BLE001 – whatever a service may say
            _log.warning("jtop does not answer, its part is left out: %s", error)

    def read(self, at: float) -> Readings:
        """See `Sysfs.read`."""
        readings, service = self._files.read(at), self._service
        if service is None:
            return readings
        try:
            return _completed(readings, service)
        except Exception as error:  # noqa: BLE001 – its shapes differ by version
            if self._service is not None:  # else it was closed meanwhile
                _log.warning("jtop is read no more: %s", error)
                self.close()
            return readings

    def close(self) -> None:
        """Let go of the service."""
        service, self._service = self._service, None
        if service is not None:
            service.close()


def _connect() -> Any:
    if importlib.util.find_spec("jtop") is None:
        raise MissingExtra(
            'power.reader is "jtop", and jetson-stats is not installed',
            "Run: pip install 'edge-runtime[jtop]', or leave power.reader out.",
        )
    from jtop import jtop

    service = jtop()
    service.start()
    return service


def _completed(readings: Readings, service: Any) -> Readings:
    """Milliwatts and kHz become watts and Hz."""
    if not service.ok(spin=True):  # what it said last would be told for ever
        raise ConnectionError("the service ended")
    rails = dict(readings.rails)
    for name, rail in (service.power.get("rail") or {}).items():
        if rail.get("online", True) and "power" in rail:
            rails.setdefault(name, rail["power"] / 1000)
    emc = _of(service.memory, "EMC")
    memory = readings.memory
    if memory is None and "cur" in emc:
        memory = Clock(emc["cur"] * 1000.0, _share(emc.get("val")))
    model = service.nvpmodel
    mode = readings.mode
    if mode is None and model is not None:
        mode = Mode(int(model.id), str(model.name))
    return replace(readings, rails=rails, board=board(rails), memory=memory, mode=mode)


def _of(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return found.get(key) or {}


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100

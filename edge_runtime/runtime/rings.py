"""The rings of sessions, in memory that the device reads as it lies."""

from __future__ import annotations

import logging

import numpy as np

from edge_runtime.audio.ring import Ring
from edge_runtime.device import Device
from edge_runtime.errors import DeviceError

_log = logging.getLogger(__name__)


def make_ring(device: Device, size: int) -> Ring:
    """A ring of `size` samples in mapped memory; in any other, with a warning, for want of it.

    That costs only time: the device copies what it cannot see.
    """
    try:
        return Ring(device.alloc((size,), np.float32, "mapped").host)
    except DeviceError as error:
        _log.warning("audio goes through memory that the GPU does not see: %s", error)
        return Ring(size)


class Rings:
    """Rings of one size for sessions that come and go, a few of them made before any comes."""

    def __init__(self, device: Device, size: int, count: int) -> None:
        self._size = size
        self._device = device
        self._made = {id(ring): ring for ring in (make_ring(device, size) for _ in range(count))}
        self._spare = list(self._made.values())

    def take(self, device: Device) -> Ring:
        """A ring for `device`, made where none is left.

        Those of another device, which it replaces, are let go.
        """
        if device is not self._device:
            self._device = device
            self._made.clear()
            self._spare.clear()
        if self._spare:
            return self._spare.pop()
        ring = make_ring(device, self._size)
        self._made[id(ring)] = ring
        return ring

    def give(self, ring: Ring) -> None:
        """Keep it for the next session; nobody may read it any more."""
        if id(ring) in self._made:
            ring.clear()
            self._spare.append(ring)

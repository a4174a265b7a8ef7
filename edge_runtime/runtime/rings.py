"""The rings of sessions, in memory that the device reads as it lies."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

import numpy as np

from edge_runtime.audio.ring import Ring, Samples
from edge_runtime.device import Device
from edge_runtime.errors import DeviceError, MemoryCapped, ServerFull

_log = logging.getLogger(__name__)


def ring_memory(device: Device, size: int) -> Samples:
    """Memory for `size` samples that is mapped; any other, with a warning, for want of it.

    That costs only time: the device copies what it cannot see. Raises `MemoryCapped` where no
    more may be taken.
    """
    try:
        return device.alloc((size,), np.float32, "mapped").host
    except MemoryCapped:
        raise
    except DeviceError as error:
        _log.warning("audio goes through memory that the GPU does not see: %s", error)
        return np.zeros(size, np.float32)


class Rings:
    """Rings of one size for sessions that come and go; their memory is made before any comes.

    More of it is made where more sessions speak at once.
    """

    def __init__(self, device: Device, size: int, count: int) -> None:
        self._size = size
        self._device = device
        self._made: dict[int, Samples] = {}
        with contextlib.suppress(MemoryCapped):  # then so many sessions are not served
            for _ in range(count):
                self._make()
        self._spare = list(self._made.values())

    def open(self, device: Callable[[], Device]) -> Ring:
        """A ring that takes its memory with its first audio, from the device that is used then.

        Where no more may be taken, writing that raises `ServerFull`.
        """
        return Ring(self._size, lambda: self._take(device()))

    def close(self, ring: Ring) -> None:
        """Keep its memory for the next session; nobody may read it any more."""
        memory = ring.release()
        if memory is not None and id(memory) in self._made:
            self._spare.append(memory)

    def _take(self, device: Device) -> Samples:
        """Memory that `device` sees. That of another device, which it replaces, is let go."""
        if device is not self._device:
            self._device = device
            self._made.clear()
            self._spare.clear()
        if self._spare:
            return self._spare.pop()
        try:
            return self._make()
        except MemoryCapped as error:
            raise ServerFull(
                f"there is no memory for another session: {error.message}", error.fix
            ) from error

    def _make(self) -> Samples:
        memory = ring_memory(self._device, self._size)
        self._made[id(memory)] = memory
        return memory

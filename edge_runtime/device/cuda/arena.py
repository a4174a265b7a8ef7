"""Every allocation of one device: taken of its budget, released when nobody holds it."""

from __future__ import annotations

import bisect
import contextlib
import logging
import math
import threading
import weakref
from collections import deque
from dataclasses import dataclass

from edge_runtime.device.base import Kind
from edge_runtime.device.cuda.base import Driver
from edge_runtime.device.cuda.budget import Budget, What
from edge_runtime.device.cuda.memory import Allocation
from edge_runtime.errors import DeviceError, DeviceLost, MemoryCapped

ALIGNMENT = 256
"""Bytes: what TensorRT asks of every address."""

_log = logging.getLogger(__name__)


@dataclass
class _Live:
    size: int
    host: int
    what: What
    allocation: weakref.ref[Allocation] | None


class Arena:
    """The memory of a device, in pieces of whole `ALIGNMENT`s.

    What nobody holds any more is released at the next allocation, not when it is dropped: that
    may be in any thread and in the middle of a capture, and releasing waits for the device.
    """

    def __init__(self, driver: Driver, budget: Budget) -> None:
        self._driver = driver
        self._budget = budget
        self._live: dict[int, _Live] = {}
        self._left: deque[int] = deque()
        # Where mapped memory lies on the host, where it ends, and where the device sees it, in
        # order. Replaced as a whole, so that it is read without the lock.
        self._mapped: list[tuple[int, int, int]] = []
        self._lock = threading.Lock()

    def alloc(self, size: int, kind: Kind, what: What) -> Allocation:
        """Memory that is released when nobody holds it; not zeroed.

        Raises `DeviceError` naming what was asked for, what is taken and what is free.
        """
        whole = _whole(size)
        self._take(whole, what)
        host = 0
        try:
            if kind == "device":
                pointer = self._driver.alloc(whole)
            else:
                host, pointer = self._driver.alloc_host(whole, kind == "mapped")
                pointer = pointer or host
        except DeviceError:
            self._budget.give(whole, what)
            raise
        allocation = Allocation(pointer, host, size, kind, self._left.append)
        self._keep(pointer, _Live(whole, host, what, weakref.ref(allocation)))
        if kind == "mapped":
            with self._lock:
                self._mapped = sorted([*self._mapped, (host, host + whole, pointer)])
        return allocation

    def seen(self, host: int, size: int) -> int | None:
        """Where the device sees `size` bytes of the host; None where they are not mapped."""
        mapped = self._mapped
        place = bisect.bisect(mapped, (host, math.inf)) - 1
        if place < 0:
            return None
        first, end, pointer = mapped[place]
        return pointer + host - first if host + size <= end else None

    def take(self, size: int, what: What) -> int:
        """Device memory for a library, that is released with `give`; not zeroed."""
        whole = _whole(size)
        self._take(whole, what)
        try:
            pointer = self._driver.alloc(whole)
        except DeviceError:
            self._budget.give(whole, what)
            raise
        self._keep(pointer, _Live(whole, 0, what, None))
        return pointer

    def give(self, pointer: int) -> None:
        """Release what `take` gave; a `DeviceError` for any other address."""
        with self._lock:
            live = self._live.get(pointer)
            if live is None or live.allocation is not None:
                raise DeviceError(f"the address {pointer:#x} was not taken from this device")
            del self._live[pointer]
        self._release(pointer, live)

    def reclaim(self) -> None:
        """Release what nobody holds any more. Not while the calling thread captures."""
        while True:
            try:
                pointer = self._left.popleft()
            except IndexError:
                return
            with self._lock:
                live = self._live.pop(pointer, None)
            if live is not None:
                self._release(pointer, live)

    def close(self) -> bool:
        """Release everything; False where memory of the host is left, for an array still uses it.

        Buffers that are still held raise when they are used. An array cannot: what lies under
        it stays until the process ends.
        """
        self.reclaim()
        kept = 0
        for pointer, live in list(self._live.items()):
            allocation = live.allocation() if live.allocation is not None else None
            if allocation is not None:
                allocation.closed = True
                if live.host:
                    kept += live.size
                    continue
            del self._live[pointer]
            self._release(pointer, live)
        if kept:
            _log.info("%d bytes of page-locked memory stay: arrays use them", kept)
        return not kept

    def _take(self, size: int, what: What) -> None:
        self.reclaim()
        try:
            self._budget.take(size, what)
        except MemoryCapped as error:
            free, total = self._driver.free()
            raise MemoryCapped(
                f"{error.message}; the GPU has {free} of {total} free", error.fix
            ) from None

    def _keep(self, pointer: int, live: _Live) -> None:
        with self._lock:
            self._live[pointer] = live

    def _release(self, pointer: int, live: _Live) -> None:
        with self._lock:
            self._mapped = [each for each in self._mapped if each[2] != pointer]
        self._budget.give(live.size, live.what)
        with contextlib.suppress(DeviceLost):  # it is gone with the device
            if live.host:
                self._driver.release_host(live.host)
            else:
                self._driver.release(pointer)


def _whole(size: int) -> int:
    return max(1, -(-size // ALIGNMENT)) * ALIGNMENT

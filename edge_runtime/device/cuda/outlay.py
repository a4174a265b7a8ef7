"""Memory of the GPU that goes to the driver and to libraries, beside what is allocated."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from edge_runtime.device.cuda.base import Driver
from edge_runtime.device.cuda.budget import Budget
from edge_runtime.device.cuda.card import free_on_card
from edge_runtime.errors import DeviceError, MemoryCapped


class Outlay:
    """Counts in `budget`, as `driver`, what left the card and no allocation explains.

    It is only looked at around what takes memory in that way, for at other times it may be
    another process that does. Pieces of the driver are large, and small allocations fill them
    later: so what is missing is carried on from one look to the next, and may shrink.
    """

    def __init__(self, driver: Driver, budget: Budget) -> None:
        """Begins with what opening the context took. Raises `MemoryCapped` over the cap."""
        self._driver = driver
        self._budget = budget
        self._missing = driver.opening
        self._within = 0
        self._before: int | None = None
        self._lock = threading.Lock()
        self._settle()

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count what the block takes; blocks of several threads that overlap are one.

        Raises `MemoryCapped` after it where that is over the cap.
        """
        self._enter()
        try:
            yield
        except BaseException:
            self._leave(settle=False)
            raise
        self._leave(settle=True)

    @contextlib.contextmanager
    def returned(self) -> Iterator[None]:
        """Count what the block gives back; what else is taken meanwhile raises nothing."""
        with contextlib.suppress(MemoryCapped), self.counted():
            yield

    def _enter(self) -> None:
        with self._lock:
            if not self._within:
                self._before = self._unexplained()
            self._within += 1

    def _leave(self, settle: bool) -> None:
        with self._lock:
            self._within -= 1
            if self._within or not settle:
                return
            after = self._unexplained()
            if self._before is None or after is None:
                return
            self._missing += after - self._before
            self._settle()

    def _settle(self) -> None:
        self._budget.found(max(0, self._missing))

    def _unexplained(self) -> int | None:
        """Bytes that are gone from the card and not in the budget, from wherever one begins.

        None where nobody says: whatever fails then says so itself.
        """
        free = self._free()
        if free is None:
            return None
        known = self._budget.by_kind
        allocated = known["device"] + known["scratch"] + known["engine"]
        if self._driver.integrated:
            allocated += known["pinned"]
        return -free - allocated

    def _free(self) -> int | None:
        # Of one memory for both, CUDA leaves out what the file cache would give back.
        if self._driver.integrated:
            return free_on_card("", integrated=True)
        try:
            return self._driver.free()[0]
        except DeviceError:
            return None

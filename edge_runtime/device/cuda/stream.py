"""Streams of a GPU: what was enqueued, waited for and captured on them."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Protocol

import numpy as np

from edge_runtime.device.base import Counters, Mark
from edge_runtime.device.cuda.arena import Arena
from edge_runtime.device.cuda.base import Driver
from edge_runtime.device.cuda.memory import CudaBuffer
from edge_runtime.errors import DeviceError, DeviceLost


class Closing(Protocol):
    """What a stream closes before itself."""

    def close(self) -> None: ...


class Tape:
    """What a capture takes in besides the work: bytes that it copies, memory that it reads."""

    def __init__(self) -> None:
        self.copied: dict[str, int] = {}
        self.kept: list[object] = []


class CudaMark:
    """A CUDA event, lent by its stream until the mark is dropped."""

    def __init__(self, driver: Driver, event: int, spare: deque[int]) -> None:
        self._driver = driver
        self._event = event
        self._spare = spare

    def since(self, earlier: Mark) -> float:
        """See `Mark`; raises `DeviceError` where the work has not passed both places."""
        if not isinstance(earlier, CudaMark):
            raise DeviceError("a mark of a GPU cannot be compared with one of another device")
        return self._driver.elapsed(earlier._event, self._event)

    def __del__(self) -> None:
        self._spare.append(self._event)


class CudaStream:
    """See `Stream`. `handle` is the CUstream, for libraries that enqueue on it themselves."""

    def __init__(
        self, driver: Driver, arena: Arena, priority: int = 0, ordered: bool = False
    ) -> None:
        least, greatest = driver.priorities()
        self.priority = min(max(priority, greatest), least)
        self.driver = driver
        self.handle = driver.stream(self.priority, ordered)
        self.counters = Counters()
        self.tape: Tape | None = None
        """Set while a capture is under way."""
        self.graphs: set[Closing] = set()
        """What was captured here and is not closed yet."""
        self._arena = arena
        self._scratch: CudaBuffer | None = None
        self._events: list[int] = []
        self._spare: deque[int] = deque()

    def synchronize(self) -> None:
        self._not_capturing("waited for")
        self.counters.waits += 1
        self.driver.synchronize(self.handle)

    def mark(self) -> CudaMark:
        self._not_capturing("marked")
        try:
            event = self._spare.popleft()
        except IndexError:
            event = self.driver.event()
            self._events.append(event)
        mark = CudaMark(self.driver, event, self._spare)
        self.driver.record(event, self.handle)
        return mark

    def scratch(self, size: int) -> CudaBuffer:
        """At least `size` bytes (uint8) that all calls bound to this stream share.

        A smaller piece given before lives on with the calls and graphs that use it: ask for the
        most first. Raises `DeviceError`, also while capturing where it would have to grow.
        """
        if self._scratch is None or self._scratch.nbytes < size:
            if self.tape is not None:
                have = self._scratch.nbytes if self._scratch is not None else 0
                raise DeviceError(
                    f"{size} bytes of scratch memory are asked for during a capture, there are "
                    f"{have}",
                    "Bind calls before they are captured.",
                )
            allocation = self._arena.alloc(size, "device", "scratch")
            self._scratch = CudaBuffer(allocation, (size,), np.uint8)
        return self._scratch

    def copied(self, kind: str, size: int, *kept: object) -> None:
        """Count a copy that was enqueued; into the graph, with what it reads, while capturing."""
        if self.tape is None:
            self.counters.copy(kind, size)
        else:
            self.tape.copied[kind] = self.tape.copied.get(kind, 0) + size
            self.tape.kept.extend(kept)

    def close(self) -> None:
        """Release the stream, its graphs and events; its marks cannot be read any more."""
        # Of a device that is lost nothing can be released; all else still has to be.
        for graph in list(self.graphs):
            graph.close()
        for event in self._events:
            with contextlib.suppress(DeviceLost):
                self.driver.release_event(event)
        self._events.clear()
        self._spare.clear()
        self._scratch = None
        if self.handle:
            handle, self.handle = self.handle, 0
            with contextlib.suppress(DeviceLost):
                self.driver.release_stream(handle)

    def _not_capturing(self, verb: str) -> None:
        if self.tape is not None:
            raise DeviceError(f"a stream cannot be {verb} while its work is captured")

"""A GPU over memory of the host, for tests without one: what the fake drivers share.

Pointers are real addresses, so that copies really copy. Work runs at once, or with `deferred`
only when something waits for it, which shows code that reads results too early. Statuses come
as CUDA would give them, or on demand with `fail` and `lose`.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.fakes.cuda_names import KERNEL, OK, CUgraphNodeType, CUresult, CUstreamCaptureMode

Work = Callable[[], None]


class Fault(Exception):
    """Raised by a kernel: the device is lost from there on, with this status."""

    def __init__(self, status: CUresult) -> None:
        super().__init__(status.name)
        self.status = status


@dataclass
class Node:
    """One piece of work of a stream, and how long it takes by the device's clock."""

    kind: CUgraphNodeType
    work: Work
    name: str = ""
    seconds: float = 0.001


@dataclass
class Capture:
    mode: CUstreamCaptureMode
    thread: int
    nodes: list[Node] = field(default_factory=list)
    valid: bool = True


@dataclass
class Stream:
    flags: int
    priority: int
    queue: list[Node] = field(default_factory=list)
    capture: Capture | None = None


@dataclass
class Launch:
    """A kernel that was launched: blocks, threads of each, bytes they share, arguments.

    `early` is one that may begin before the one in front of it is over.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    values: tuple[Any, ...]
    early: bool = False


@dataclass
class Memory:
    """An allocation; freed ones are kept so that their addresses are not given again."""

    store: np.ndarray[Any, Any]
    pointer: int
    size: int
    host: bool
    mapped: bool = False
    freed: bool = False


class FakeGpu:
    """One GPU (`count` of them answer alike), and all that was made on it."""

    def __init__(
        self,
        total: int = 64 << 20,
        *,
        count: int = 1,
        integrated: bool = False,
        capability: tuple[int, int] = (8, 7),
        deferred: bool = False,
    ) -> None:
        self.total = total
        self.count = count
        self.integrated = integrated
        self.capability = capability
        self.deferred = deferred
        self.version = 12060
        """CUDA of the driver."""
        self.bus = "0000:3B:00.0"
        self.flags = 0
        self.used = 0
        self.overhead = {"context": 0, "module": 0, "graph": 0}
        """Bytes that these take of the device besides what is allocated."""
        self.seconds = 0.0
        self.calls: dict[str, int] = {}
        self.lost: CUresult | None = None
        self.retained = 0
        self.memory: list[Memory] = []
        self.streams: dict[int, Stream] = {}
        self.events: dict[int, float | None] = {}
        self.graphs: dict[int, list[Node]] = {}
        self.executables: dict[int, list[Node]] = {}
        self.modules: set[int] = set()
        self.launches: list[Launch] = []
        self.kernels: dict[str, Callable[..., None]] = {}
        """What the kernels of a module do, by name: called with their arguments."""
        self.lock = threading.RLock()
        self._current = threading.local()
        self._failures: dict[str, dict[int, CUresult]] = {}
        self._next = 0x1000

    # What a test says and asks.

    def fail(self, name: str, status: CUresult, nth: int = 1) -> None:
        """Let the `nth` call of `name` from now on give `status` and do nothing."""
        self._failures.setdefault(name, {})[self.calls.get(name, 0) + nth] = status

    def lose(self, status: CUresult = CUresult.CUDA_ERROR_LAUNCH_FAILED) -> None:
        """Let every call from now on give `status`, as after a fault of the device."""
        self.lost = status

    def launch(self, stream: int, work: Work, name: str = "kernel", seconds: float = 1e-3) -> int:
        """Enqueue a kernel; what a library above the driver does. Gives the status."""
        with self.lock:
            status = self._enter("launch")
            return status or self._enqueue(int(stream), Node(KERNEL, work, name, seconds))

    def array(self, pointer: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """What lies at an address, for a kernel to read and write."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self._lies(pointer, size)
        raw = (ctypes.c_uint8 * size).from_address(pointer)
        return np.frombuffer(raw, dtype).reshape(shape)

    def check_released(self) -> None:
        """An `AssertionError` that lists what was made and not released."""
        left = {
            "memory": [each.size for each in self.memory if not each.freed],
            "streams": len(self.streams),
            "events": len(self.events),
            "graphs": len(self.graphs),
            "executables": len(self.executables),
            "modules": len(self.modules),
            "contexts": self.retained,
        }
        assert not any(left.values()), left
        assert self.used == 0

    # What the functions below share.

    def _enter(self, name: str, context: bool = True) -> CUresult:
        count = self.calls[name] = self.calls.get(name, 0) + 1
        planned = self._failures.get(name, {}).pop(count, None)
        if planned is not None:
            return planned
        if self.lost is not None:
            return self.lost
        if context and not self.stack()[-1]:
            return CUresult.CUDA_ERROR_INVALID_CONTEXT
        if context and not self.retained:
            return CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED
        return OK

    def stack(self) -> list[int]:
        """The contexts of the calling thread, the current one last; 0 is none."""
        if not hasattr(self._current, "stack"):
            self._current.stack = [0]
        found: list[int] = self._current.stack
        return found

    def push(self, context: int) -> None:
        self.stack().append(context)

    def pop(self) -> int:
        return self.stack().pop()

    def _unsafe(self) -> CUresult:
        """What must not be done while capturing ends the capture, as the mode says."""
        here = threading.get_ident()
        status = OK
        for stream in self.streams.values():
            capture = stream.capture
            if capture is None or capture.mode is (
                CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
            ):
                continue
            if capture.thread == here or (
                capture.mode is CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
            ):
                capture.valid = False
                status = CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
        return status

    def _handle(self) -> int:
        self._next += 0x10
        return self._next

    def _allocate(self, size: int, host: bool, mapped: bool = False) -> Memory | None:
        # The host's memory is the device's on an integrated GPU.
        if (not host or self.integrated) and self.used + size > self.total:
            return None
        store = np.full(size + 256, 0xA5, np.uint8)
        pointer = -(-store.ctypes.data // 256) * 256
        made = Memory(store, pointer, size, host, mapped)
        self.memory.append(made)
        if not host or self.integrated:
            self.used += size
        return made

    def _free(self, pointer: int, host: bool) -> CUresult:
        for each in self.memory:
            if each.pointer == pointer and each.host == host and not each.freed:
                for stream in list(self.streams.values()):
                    self._run(stream)
                each.freed = True
                each.store[:] = 0xDD
                if not host or self.integrated:
                    self.used -= each.size
                return OK
        return CUresult.CUDA_ERROR_INVALID_VALUE

    def _lies(self, pointer: int, size: int) -> Memory | None:
        """The allocation that holds these bytes, None for any other memory of the host."""
        for each in self.memory:
            if each.pointer < pointer + size and pointer < each.pointer + each.store.size - 256:
                inside = each.pointer <= pointer and pointer + size <= each.pointer + each.size
                if each.freed or not inside:
                    raise Fault(CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
                return each
        return None

    def _enqueue(self, handle: int, node: Node) -> CUresult:
        stream = self.streams.get(handle)
        if stream is None:
            return CUresult.CUDA_ERROR_INVALID_HANDLE
        if stream.capture is not None:
            if not stream.capture.valid:
                return CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
            stream.capture.nodes.append(node)
            return OK
        stream.queue.append(node)
        return OK if self.deferred else self._run(stream)

    def _run(self, stream: Stream) -> CUresult:
        while stream.queue and self.lost is None:
            node = stream.queue.pop(0)
            self.seconds += node.seconds
            try:
                node.work()
            except Fault as fault:
                self.lost = fault.status
        return self.lost or OK

    def _copy_work(self, target: int, source: int, size: int, capturing: bool) -> Work:
        if self._lies(source, size) is None and not capturing:
            # Memory that is not page-locked is read before the call returns.
            held = ctypes.string_at(source, size)

            def staged() -> None:
                self._lies(target, size)
                ctypes.memmove(target, held, size)

            return staged

        def work() -> None:
            self._lies(target, size)
            self._lies(source, size)
            ctypes.memmove(target, source, size)

        return work

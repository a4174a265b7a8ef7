"""The CUDA driver through PyCUDA, and through cuda-bindings where PyCUDA has nothing.

PyCUDA makes the primary context current, memory, streams and waits. It has no graphs and no
priority of streams (one that has a priority is cuda-bindings' with all that is done on it), hides
the handles of its events, and lets go of the interpreter's lock for copies and fills: those are not
its own.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from edge_runtime.device.cuda.bindings import BindingsDriver
from edge_runtime.device.cuda.status import failure, text
from edge_runtime.errors import DeviceError


def broken() -> str | None:
    """Why PyCUDA does not load, though installed (it is compiled for one CUDA and one Python)."""
    try:
        importlib.import_module("pycuda.driver")
    except (ImportError, OSError) as error:
        return str(error)
    return None


class PyCudaDriver(BindingsDriver):
    """See `Driver`."""

    library = "pycuda"

    def __init__(self, index: int = 0) -> None:
        import pycuda.driver

        self._pycuda = pycuda.driver
        self._lock = threading.Lock()
        self._memory: dict[int, Any] = {}
        self._pinned: dict[int, Any] = {}
        self._streams: dict[int, Any] = {}
        super().__init__(index)

    def _retain(self) -> Any:
        with self._translated("the GPU could not be opened"):
            self._pycuda.init()
            self._primary = self._pycuda.Device(self.index).retain_primary_context()
        return self._cuda.CUcontext(int(self._primary.handle))

    @contextlib.contextmanager
    def _pushed(self) -> Iterator[None]:
        """With the context on PyCUDA's own stack, which is where it looks when it makes things.

        Not for longer than that: PyCUDA ends the process when a thread ends whose stack is not
        empty. Everything else finds the context that was set once in each thread.
        """
        self._primary.push()
        try:
            yield
        finally:
            self._primary.pop()

    @contextlib.contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        """PyCUDA's errors as ours. Not for calls of every step, that it would cost a third more."""
        try:
            yield
        except self._pycuda.Error as error:
            raise self._ours(error, what) from error

    def _ours(self, error: Exception, what: str) -> DeviceError:
        """Of PyCUDA's words: they say the call and CUDA's text for the status, not its name."""
        said = str(error)
        call, _, words = said.partition(" failed: ")
        statuses = self._cuda.CUresult
        # The longest text that fits, since PyCUDA may say more after it.
        found = max(
            (status for status in statuses if words.startswith(text(status))),
            key=lambda status: len(text(status)),
            default=None,
        )
        if found is None:
            return DeviceError(f"{what}: {said}", "Look for the text in PyCUDA's documentation.")
        if found == statuses.CUDA_ERROR_OUT_OF_MEMORY:
            free, total = self.free()
            what += f", {free} of {total} are free"
        return failure(call, found, what)

    def alloc(self, size: int) -> int:
        self._enter()
        with self._translated(f"no {size} bytes of device memory"), self._pushed():
            memory = self._pycuda.mem_alloc(size)
        pointer = int(memory)
        with self._lock:
            self._memory[pointer] = memory
        return pointer

    def release(self, pointer: int) -> None:
        self._enter()
        with self._lock:
            memory = self._memory.pop(pointer)
        with self._translated("memory could not be released"), self._pushed():
            memory.free()

    def alloc_host(self, size: int, mapped: bool) -> tuple[int, int]:
        self._enter()
        flags = self._pycuda.host_alloc_flags
        wanted = int(flags.PORTABLE) | (mapped and int(flags.DEVICEMAP))
        what = f"no {size} bytes of page-locked memory"
        with self._translated(what), self._pushed():
            array = self._pycuda.pagelocked_empty(size, np.uint8, mem_flags=wanted)
            try:
                seen = int(array.base.get_device_pointer()) if mapped else 0
            except self._pycuda.Error:
                array.base.free()
                raise
        host = int(array.ctypes.data)
        with self._lock:
            self._pinned[host] = array
        return host, seen

    def release_host(self, pointer: int) -> None:
        self._enter()
        with self._lock:
            array = self._pinned.pop(pointer)
        with self._translated("memory could not be released"), self._pushed():
            array.base.free()

    def stream(self, priority: int = 0, ordered: bool = False) -> int:
        if priority or ordered:
            return super().stream(priority, ordered)
        self._enter()
        flags = int(self._cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)
        with self._translated("no stream could be made"), self._pushed():
            made = self._pycuda.Stream(flags)
        handle = int(made.handle)
        self._streams[handle] = made
        return handle

    def release_stream(self, stream: int) -> None:
        made = self._streams.pop(stream, None)
        if made is None:
            super().release_stream(stream)
            return
        self._enter()
        with self._pushed():
            del made  # PyCUDA releases a stream when nothing holds it

    def synchronize(self, stream: int) -> None:
        made = self._streams.get(stream)
        if made is None:
            super().synchronize(stream)
            return
        self._enter()
        try:
            made.synchronize()
        except self._pycuda.Error as error:
            raise self._ours(error, "the GPU failed") from error

    def close(self) -> None:
        # Detached while on the stack: off it, PyCUDA only does so in the thread that opened it.
        self._primary.push()
        with self._translated("the GPU could not be closed"):
            self._primary.detach()
        # Detaching took it off PyCUDA's stack, not off CUDA's. Whatever the status: it is over.
        self._cuda.cuCtxPopCurrent()

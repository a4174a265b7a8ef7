"""Calls of the driver that only enqueue, made with the interpreter's lock kept.

cuda-bindings and PyCUDA let go of it round each call, and have to wait for it behind all threads
that want it meanwhile, for work of some microseconds. With 300 streams on an H200 that alone made
the slowest of twenty finals a quarter of a second later (p95 928 ms, not 684).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

UNIFIED = 4
"""CU_MEMORYTYPE_UNIFIED: an address says itself where it lies."""

_ADDRESS, _HANDLE, _SIZE = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = (
        ("srcXInBytes", _SIZE), ("srcY", _SIZE), ("srcMemoryType", ctypes.c_uint),
        ("srcHost", _HANDLE), ("srcDevice", _ADDRESS), ("srcArray", _HANDLE), ("srcPitch", _SIZE),
        ("dstXInBytes", _SIZE), ("dstY", _SIZE), ("dstMemoryType", ctypes.c_uint),
        ("dstHost", _HANDLE), ("dstDevice", _ADDRESS), ("dstArray", _HANDLE), ("dstPitch", _SIZE),
        ("WidthInBytes", _SIZE), ("Height", _SIZE),
    )  # fmt: skip


def library() -> Any:
    """The driver's library, once cuda-bindings has loaded it."""
    return ctypes.PyDLL("libcuda.so.1")


class Held:
    """Each call gives CUDA's status as a number. The context must be current."""

    def __init__(self) -> None:
        cuda = library()
        self.copy = _call(cuda.cuMemcpyAsync, _ADDRESS, _ADDRESS, _SIZE, _HANDLE)
        self.fill = _call(cuda.cuMemsetD8Async, _ADDRESS, ctypes.c_ubyte, _SIZE, _HANDLE)
        self.record = _call(cuda.cuEventRecord, _HANDLE, _HANDLE)
        self.launch = _call(cuda.cuGraphLaunch, _HANDLE, _HANDLE)
        self._elapsed = _call(cuda.cuEventElapsedTime, _HANDLE, _HANDLE, _HANDLE)
        self._copy_rows = _call(cuda.cuMemcpy2DAsync_v2, ctypes.c_void_p, _HANDLE)

    def copy_rows(
        self, target: int, source: int, pitch: int, width: int, rows: int, stream: int
    ) -> int:
        """`width` bytes of each of `rows` that lie `pitch` bytes apart."""
        what = Copy2D(
            srcMemoryType=UNIFIED, srcDevice=source, srcPitch=pitch,
            dstMemoryType=UNIFIED, dstDevice=target, dstPitch=pitch,
            WidthInBytes=width, Height=rows,
        )  # fmt: skip
        return self._copy_rows(ctypes.addressof(what), stream)

    def elapsed(self, earlier: int, later: int) -> tuple[int, float]:
        """The status, and milliseconds between two events."""
        found = ctypes.c_float()
        return self._elapsed(ctypes.addressof(found), earlier, later), found.value


def _call(function: Any, *kinds: Any) -> Callable[..., int]:
    function.argtypes = kinds
    function.restype = ctypes.c_int
    called: Callable[..., int] = function
    return called

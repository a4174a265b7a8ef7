"""Buffers in the memory that CUDA gives: page-locked, mapped, or the device's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.device.base import Kind
from edge_runtime.errors import DeviceError


class Allocation:
    """One piece of memory, given back when neither a buffer nor an array holds it any more.

    `pointer` is its address as the device sees it, `host` as the host does (0 for the device's
    own memory). `leave` is told when it may be released; it may be called in any thread, at any
    moment, and so must not call CUDA.
    """

    def __init__(
        self, pointer: int, host: int, size: int, kind: Kind, leave: Callable[[int], None]
    ) -> None:
        self.pointer = pointer
        self.host = host
        self.size = size
        self.kind: Kind = kind
        self.closed = False
        self._leave = leave

    @property
    def __array_interface__(self) -> dict[str, Any]:
        # An array made of this keeps it alive, and so the memory under the array.
        return {"version": 3, "data": (self.host, False), "shape": (self.size,), "typestr": "|u1"}

    def __del__(self) -> None:
        self._leave(self.pointer)


class CudaBuffer:
    """`shape` elements of `dtype` from byte `first` of an allocation on.

    `kind` is what the memory is: on an integrated GPU, pinned memory is mapped as well.
    """

    def __init__(
        self, allocation: Allocation, shape: tuple[int, ...], dtype: Any, first: int = 0
    ) -> None:
        self.shape = shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.nbytes: int = math.prod(shape) * self.dtype.itemsize
        self._allocation = allocation
        self._first = first
        self._host: NDArray[Any] | None = None

    @property
    def kind(self) -> Kind:
        return self._allocation.kind

    @property
    def pointer(self) -> int:
        """The address as the device sees it.

        That of pinned memory is good for copies; a kernel may use it only where it is mapped.
        """
        if self._allocation.closed:
            raise DeviceError(f"a buffer of {self.shape} is used after its device was closed")
        return self._allocation.pointer + self._first

    @property
    def host(self) -> NDArray[Any]:
        """The same memory as an array, which keeps it alive; a `DeviceError` for the device's."""
        if self._host is None:
            if not self._allocation.host:
                raise DeviceError(
                    f"a buffer of {self.shape} lies on the device, the host cannot see it",
                    "Copy it to a pinned buffer and synchronise the stream.",
                )
            whole = np.asarray(self._allocation)
            part = whole[self._first : self._first + self.nbytes]
            self._host = part.view(self.dtype).reshape(self.shape)
        return self._host

    def view(self, shape: tuple[int, ...], offset: int = 0, dtype: Any = None) -> CudaBuffer:
        """See `Buffer`; raises `DeviceError` where it leaves the memory or is not aligned."""
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        first = self._first + offset * self.dtype.itemsize
        last = first + math.prod(shape) * dtype.itemsize
        if first < 0 or last > self._allocation.size:
            raise DeviceError(f"a view of {shape} at {offset} leaves a buffer of {self.shape}")
        if first % dtype.itemsize:
            raise DeviceError(f"a view as {dtype} at byte {first} is not aligned")
        return CudaBuffer(self._allocation, shape, dtype, first)

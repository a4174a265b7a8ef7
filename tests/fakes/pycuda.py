"""The part of `pycuda.driver` that edge_runtime uses, on a fake GPU.

As in PyCUDA, things are made and released only while the context is on the calling thread's own
stack, which must be empty when the thread ends.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any

import numpy as np

from tests.fakes.cuda import Functions, module
from tests.fakes.cuda_names import OK, TEXTS, CUresult
from tests.fakes.gpu import FakeGpu


class Error(Exception):
    """PyCUDA says the call and CUDA's text for the status, in words only."""


class LogicError(Error): ...


class LaunchError(Error): ...


class MemoryError(Error, MemoryError):  # noqa: A001 - PyCUDA's name
    ...


class HostAllocFlags:
    PORTABLE = 1
    DEVICEMAP = 2


class Context:
    pycuda: PyCuda
    handle = 0xC0

    def push(self) -> None:
        self.pycuda.deeper(1)
        self.pycuda.gpu.push(self.handle)

    @classmethod
    def pop(cls) -> None:
        cls.pycuda.made("pop")
        cls.pycuda.deeper(-1)
        cls.pycuda.gpu.pop()

    def detach(self) -> None:
        # Off the stack it does nothing in another thread than the one that opened it.
        if self.pycuda.deep():
            self.pycuda.deeper(-1)
            self.pycuda.call("cuDevicePrimaryCtxRelease", 0)


class Device:
    pycuda: PyCuda

    def __init__(self, index: int) -> None:
        self.index = index

    def retain_primary_context(self) -> Any:
        self.pycuda.call("cuDevicePrimaryCtxRetain", self.index)
        return self.pycuda.Context()


class Stream:
    pycuda: PyCuda

    def __init__(self, flags: int = 0) -> None:
        self.pycuda.made("Stream")
        self.handle = int(self.pycuda.call("cuStreamCreateWithPriority", flags, 0))

    def synchronize(self) -> None:
        self.pycuda.call("cuStreamSynchronize", self.handle)

    def __del__(self) -> None:
        # Where it cannot, PyCUDA only warns, and the stream is left.
        if hasattr(self, "handle"):
            with contextlib.suppress(Error):
                self.pycuda.made("~Stream")
                self.pycuda.call("cuStreamDestroy", self.handle)


class DeviceAllocation:
    pycuda: PyCuda

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer

    def __int__(self) -> int:
        return self.pointer

    def free(self) -> None:
        self.pycuda.made("free")
        self.pycuda.call("cuMemFree", self.pointer)


class PyCuda:
    """The module's content; `stacks` counts what each thread has on its stack."""

    Error = Error
    LogicError = LogicError
    LaunchError = LaunchError
    MemoryError = MemoryError
    host_alloc_flags = HostAllocFlags

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu = gpu
        self.cuda = Functions(gpu)
        self.stacks: dict[int, int] = {}
        self.Context: Any = type("Context", (Context,), {"pycuda": self})
        self.Device: Any = type("Device", (Device,), {"pycuda": self})
        self.Stream: Any = type("Stream", (Stream,), {"pycuda": self})
        self.DeviceAllocation: Any = type("DeviceAllocation", (DeviceAllocation,), {"pycuda": self})

    def init(self, flags: int = 0) -> None:
        self.call("cuInit", flags)

    def mem_alloc(self, size: int) -> Any:
        self.made("mem_alloc")
        return self.DeviceAllocation(int(self.call("cuMemAlloc", size)))

    def pagelocked_empty(
        self, shape: int, dtype: Any, order: str = "C", mem_flags: int = 0
    ) -> np.ndarray[Any, Any]:
        self.made("pagelocked_empty")
        host = self.call("cuMemHostAlloc", shape * np.dtype(dtype).itemsize, mem_flags)
        return np.asarray(PagelockedHostAllocation(self, host, shape, np.dtype(dtype)))

    def deep(self) -> int:
        return self.stacks.get(threading.get_ident(), 0)

    def deeper(self, by: int) -> None:
        self.stacks[threading.get_ident()] = self.deep() + by

    def made(self, what: str) -> None:
        """What PyCUDA checks when something is made or released."""
        if not self.deep():
            raise LogicError(f"{what} failed: {TEXTS[CUresult.CUDA_ERROR_INVALID_CONTEXT]}")

    def call(self, name: str, *args: Any) -> Any:
        function = getattr(self.cuda, name)
        if args and isinstance(args[-1], str):
            *args, name = args  # type: ignore[assignment]
        status, *given = function(*args)
        if status is not OK:
            words = self.cuda.cuGetErrorString(status)[1].decode()
            kind: type[Error] = LogicError
            if status is CUresult.CUDA_ERROR_OUT_OF_MEMORY:
                kind = MemoryError
            elif status is CUresult.CUDA_ERROR_LAUNCH_FAILED:
                kind = LaunchError
            raise kind(f"{name} failed: {words}")
        return given[0] if given else None


class PagelockedHostAllocation:
    """What the arrays of page-locked memory have as their base."""

    def __init__(self, pycuda: PyCuda, host: int, size: int, dtype: Any) -> None:
        self.pycuda = pycuda
        self.host = host
        self.__array_interface__ = {
            "version": 3,
            "data": (host, False),
            "shape": (size,),
            "typestr": dtype.str,
        }

    def get_device_pointer(self) -> int:
        return int(self.pycuda.call("cuMemHostGetDevicePointer", self.host, 0))

    def free(self) -> None:
        self.pycuda.made("free")
        self.pycuda.call("cuMemFreeHost", self.host)


NAMES = (
    "Context",
    "Device",
    "DeviceAllocation",
    "Error",
    "LaunchError",
    "LogicError",
    "MemoryError",
    "Stream",
    "host_alloc_flags",
    "init",
    "mem_alloc",
    "pagelocked_empty",
)


def install(monkeypatch: Any, gpu: FakeGpu) -> PyCuda:
    """Put the fake in the place of `pycuda.driver` until the test is over."""
    content = PyCuda(gpu)
    driver = module("pycuda.driver", **{name: getattr(content, name) for name in NAMES})
    package = module("pycuda", driver=driver)
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)
    return content

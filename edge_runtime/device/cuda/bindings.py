"""The CUDA driver through cuda-bindings alone, 12.6 or later and 13."""

from __future__ import annotations

import contextlib
import threading
from contextlib import AbstractContextManager
from typing import Any

from edge_runtime.device.cuda.card import free_on_card
from edge_runtime.device.cuda.held import Held
from edge_runtime.device.cuda.status import check, failure
from edge_runtime.errors import DeviceError

LARGE = 4 << 20
"""Bytes of a copy that takes time of its own where it is of memory that is not page-locked."""


class BindingsDriver:
    """See `Driver`. One call of ours is one call of CUDA; what only enqueues is `Held`.

    The context is set once in each thread and stays: a push and a pop round each call would
    cost more than the call.
    """

    library = "cuda-bindings"

    def __init__(self, index: int = 0) -> None:
        from cuda.bindings import driver as cuda

        self.index = index
        self._cuda = cuda
        self._own = threading.local()
        self._nothing = contextlib.nullcontext()
        self._start()
        self._held = Held()
        device = self._find(index)
        self.name = check("cuDeviceGetName", cuda.cuDeviceGetName(256, device)).split(b"\0")[0]
        self.name = self.name.decode()
        attributes = cuda.CUdevice_attribute
        self.capability: tuple[int, int] = (
            self._ask(attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
            self._ask(attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
        )
        self.integrated = bool(self._ask(attributes.CU_DEVICE_ATTRIBUTE_INTEGRATED, device))
        self.total = int(check("cuDeviceTotalMem", cuda.cuDeviceTotalMem(device)))
        self._device = device
        self._context: Any = self._opened()
        self._enter()
        least, greatest = check("cuCtxGetStreamPriorityRange", cuda.cuCtxGetStreamPriorityRange())
        self._priorities = int(least), int(greatest)

    def _start(self) -> None:
        try:
            result = self._cuda.cuInit(0)
        except RuntimeError as error:  # cuda-bindings' own, where it finds no libcuda
            raise DeviceError(
                f"the NVIDIA driver's library is not there: {error}",
                "Install the NVIDIA driver (on a Jetson it is part of JetPack; a container "
                "needs --gpus all or --runtime nvidia).",
            ) from error
        check("cuInit", result)

    def _find(self, index: int) -> Any:
        count = int(check("cuDeviceGetCount", self._cuda.cuDeviceGetCount()))
        if not 0 <= index < count:
            raise DeviceError(
                f"there is no GPU {index}: this machine shows {count}",
                f"Set [computing] index to one of 0 to {count - 1}."
                if count
                else "Check that the GPU is seen: nvidia-smi",
            )
        return check("cuDeviceGet", self._cuda.cuDeviceGet(index))

    def _ask(self, attribute: Any, device: Any) -> int:
        return int(
            check("cuDeviceGetAttribute", self._cuda.cuDeviceGetAttribute(attribute, device))
        )

    def _opened(self) -> Any:
        """The primary context; `opening` is what is gone from the card for it."""
        if self.integrated:
            self._sleep_when_waiting()
        bus = check("cuDeviceGetPCIBusId", self._cuda.cuDeviceGetPCIBusId(32, self._device))
        place = bus.split(b"\0")[0].decode()
        before = free_on_card(place, self.integrated)
        context = self._retain()
        after = free_on_card(place, self.integrated)
        self.opening = 0 if before is None or after is None else max(0, before - after)
        return context

    def _sleep_when_waiting(self) -> None:
        cuda = self._cuda
        flags = int(cuda.CUctx_flags.CU_CTX_SCHED_BLOCKING_SYNC)
        result = cuda.cuDevicePrimaryCtxSetFlags(self._device, flags)
        # Whoever has the context already has said how it waits.
        if result[0] != cuda.CUresult.CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE:
            check("cuDevicePrimaryCtxSetFlags", result)

    def _retain(self) -> Any:
        return check("cuDevicePrimaryCtxRetain", self._cuda.cuDevicePrimaryCtxRetain(self._device))

    def _enter(self) -> None:
        if not hasattr(self._own, "entered"):
            check("cuCtxSetCurrent", self._cuda.cuCtxSetCurrent(self._context))
            self._own.entered = True

    def current(self) -> AbstractContextManager[None]:
        self._enter()
        return self._nothing

    def free(self) -> tuple[int, int]:
        self._enter()
        free, total = check("cuMemGetInfo", self._cuda.cuMemGetInfo())
        return int(free), int(total)

    def alloc(self, size: int) -> int:
        self._enter()
        status, pointer = self._cuda.cuMemAlloc(size)
        if status:
            raise self._refused("cuMemAlloc", status, size, "device")
        return int(pointer)

    def _refused(self, call: str, status: Any, size: int, kind: str) -> DeviceError:
        what = f"no {size} bytes of {kind} memory"
        cuda = self._cuda
        if status == cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            free, total = self.free()
            what += f", {free} of {total} are free"
        return failure(call, status, what)

    def release(self, pointer: int) -> None:
        self._enter()
        check("cuMemFree", self._cuda.cuMemFree(pointer))

    def alloc_host(self, size: int, mapped: bool) -> tuple[int, int]:
        self._enter()
        cuda = self._cuda
        flags = cuda.CU_MEMHOSTALLOC_PORTABLE | (mapped and cuda.CU_MEMHOSTALLOC_DEVICEMAP)
        status, pointer = cuda.cuMemHostAlloc(size, flags)
        if status:
            raise self._refused("cuMemHostAlloc", status, size, "page-locked")
        host = int(pointer)
        if not mapped:
            return host, 0
        status, seen = cuda.cuMemHostGetDevicePointer(host, 0)
        if status:
            cuda.cuMemFreeHost(host)
            raise failure(
                "cuMemHostGetDevicePointer", status, f"{size} bytes of the host cannot be mapped"
            )
        return host, int(seen)

    def release_host(self, pointer: int) -> None:
        self._enter()
        check("cuMemFreeHost", self._cuda.cuMemFreeHost(pointer))

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        self._enter()
        if size > LARGE:
            status = int(self._cuda.cuMemcpyAsync(target, source, size, stream)[0])
        else:
            status = self._held.copy(target, source, size, stream)
        if status:
            raise self._failed("cuMemcpyAsync", status, f"{size} bytes could not be copied")

    def copy_rows(
        self, target: int, source: int, pitch: int, width: int, rows: int, stream: int
    ) -> None:
        self._enter()
        if status := self._held.copy_rows(target, source, pitch, width, rows, stream):
            what = f"{rows} times {width} bytes could not be copied"
            raise self._failed("cuMemcpy2DAsync", status, what)

    def fill(self, pointer: int, size: int, stream: int) -> None:
        self._enter()
        if status := self._held.fill(pointer, 0, size, stream):
            raise self._failed("cuMemsetD8Async", status, f"{size} bytes could not be zeroed")

    def launch(self, graph: int, stream: int, name: str) -> None:
        self._enter()
        if status := self._held.launch(graph, stream):
            raise self._failed("cuGraphLaunch", status, f"the graph of {name} did not run")

    def _failed(self, call: str, status: int, what: str = "") -> DeviceError:
        return failure(call, self._cuda.CUresult(status), what)

    def priorities(self) -> tuple[int, int]:
        return self._priorities

    def stream(self, priority: int = 0, ordered: bool = False) -> int:
        self._enter()
        cuda = self._cuda
        kinds = cuda.CUstream_flags
        flags = int(kinds.CU_STREAM_DEFAULT if ordered else kinds.CU_STREAM_NON_BLOCKING)
        return int(
            check("cuStreamCreateWithPriority", cuda.cuStreamCreateWithPriority(flags, priority))
        )

    def release_stream(self, stream: int) -> None:
        self._enter()
        check("cuStreamDestroy", self._cuda.cuStreamDestroy(stream))

    def synchronize(self, stream: int) -> None:
        self._enter()
        check("cuStreamSynchronize", self._cuda.cuStreamSynchronize(stream))

    def event(self) -> int:
        self._enter()
        flags = int(self._cuda.CUevent_flags.CU_EVENT_DEFAULT)
        return int(check("cuEventCreate", self._cuda.cuEventCreate(flags)))

    def record(self, event: int, stream: int) -> None:
        self._enter()
        if status := self._held.record(event, stream):
            raise self._failed("cuEventRecord", status)

    def elapsed(self, earlier: int, later: int) -> float:
        self._enter()
        status, milliseconds = self._held.elapsed(earlier, later)
        if status == self._cuda.CUresult.CUDA_ERROR_NOT_READY:
            raise DeviceError(
                "the work between two marks is not over", "Synchronise their streams first."
            )
        if status:
            raise self._failed("cuEventElapsedTime", status, "no time between two marks")
        return milliseconds / 1e3

    def release_event(self, event: int) -> None:
        self._enter()
        check("cuEventDestroy", self._cuda.cuEventDestroy(event))

    def close(self) -> None:
        check("cuDevicePrimaryCtxRelease", self._cuda.cuDevicePrimaryCtxRelease(self._device))

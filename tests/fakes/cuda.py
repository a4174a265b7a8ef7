"""The functions of `cuda.bindings.driver` that edge_runtime uses, on a fake GPU."""

# ruff: noqa: N802, N803 - the names are CUDA's

from __future__ import annotations

import ctypes
import importlib.machinery
import sys
import types
from typing import Any

from edge_runtime.device.cuda import held
from tests.fakes.cuda_graphs import GraphFunctions
from tests.fakes.cuda_kernels import KernelFunctions
from tests.fakes.cuda_names import (
    CONSTANTS,
    ENUMS,
    HANDLES,
    KERNEL,
    MEMCPY,
    MEMSET,
    OK,
    RECORDS,
    TEXTS,
    CUcontext,
    CUdevice_attribute,
    CUdeviceptr,
    CUevent,
    CUresult,
    CUstream,
)
from tests.fakes.gpu import FakeGpu, Fault, Node, Stream


class Library:
    """The functions of libcuda itself that are called: by address, with a number for a status."""

    def __init__(self, gpu: FakeGpu) -> None:
        functions = Functions(gpu)

        def asked(name: str) -> Any:
            return lambda *given: int(getattr(functions, name)(*given)[0])

        for name in ("cuMemcpyAsync", "cuMemsetD8Async", "cuEventRecord", "cuGraphLaunch"):
            setattr(self, name, asked(name))

        def elapsed(target: int, earlier: int, later: int) -> int:
            status, milliseconds = functions.cuEventElapsedTime(earlier, later)
            if not status:
                ctypes.c_float.from_address(target).value = milliseconds
            return int(status)

        def copied(what: int, stream: int) -> int:
            each = held.Copy2D.from_address(what)
            if {each.srcMemoryType, each.dstMemoryType} != {4} or each.Height < 1:
                return int(CUresult.CUDA_ERROR_INVALID_VALUE)
            if each.WidthInBytes > min(each.srcPitch, each.dstPitch):
                return int(CUresult.CUDA_ERROR_INVALID_VALUE)
            with gpu.lock:
                if status := gpu._enter("cuMemcpy2DAsync"):
                    return int(status)
                rows = [
                    gpu._copy_work(
                        each.dstDevice + row * each.dstPitch,
                        each.srcDevice + row * each.srcPitch,
                        each.WidthInBytes,
                        True,
                    )
                    for row in range(each.Height)
                ]
                return int(gpu._enqueue(stream, Node(MEMCPY, lambda: [row() for row in rows])))

        self.cuEventElapsedTime, self.cuMemcpy2DAsync_v2 = elapsed, copied


class Functions(GraphFunctions, KernelFunctions):
    """The functions of `cuda.bindings.driver` that are used, under its parameters' names."""

    def __init__(self, gpu: FakeGpu) -> None:
        GraphFunctions.__init__(self, gpu)
        KernelFunctions.__init__(self, gpu)

    def cuInit(self, Flags: int) -> tuple[CUresult]:
        return (self._gpu._enter("cuInit", context=False),)

    def cuDriverGetVersion(self) -> tuple[Any, ...]:
        return OK, self._gpu.version

    def cuGetErrorString(self, error: CUresult) -> tuple[Any, ...]:
        words = TEXTS.get(error, error.name.removeprefix("CUDA_").lower().replace("_", " "))
        return OK, words.encode()

    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        status = self._gpu._enter("cuDeviceGetCount", context=False)
        return (status, None) if status else (OK, self._gpu.count)

    def cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:
        status = self._gpu._enter("cuDeviceGet", context=False)
        return (status, None) if status else (OK, ordinal)

    def cuDeviceGetName(self, length: int, dev: int) -> tuple[Any, ...]:
        status = self._gpu._enter("cuDeviceGetName", context=False)
        return (status, None) if status else (OK, b"Fake GPU".ljust(length, b"\0"))

    def cuDeviceGetAttribute(self, attrib: CUdevice_attribute, dev: int) -> tuple[Any, ...]:
        status = self._gpu._enter("cuDeviceGetAttribute", context=False)
        if status:
            return status, None
        names = CUdevice_attribute
        return OK, {
            names.CU_DEVICE_ATTRIBUTE_INTEGRATED: int(self._gpu.integrated),
            names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: self._gpu.capability[0],
            names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: self._gpu.capability[1],
        }[attrib]

    def cuDeviceTotalMem(self, dev: int) -> tuple[Any, ...]:
        status = self._gpu._enter("cuDeviceTotalMem", context=False)
        return (status, None) if status else (OK, self._gpu.total)

    def cuDeviceGetPCIBusId(self, length: int, dev: int) -> tuple[Any, ...]:
        status = self._gpu._enter("cuDeviceGetPCIBusId", context=False)
        return (status, None) if status else (OK, self._gpu.bus.encode().ljust(length, b"\0"))

    def cuDevicePrimaryCtxSetFlags(self, dev: int, flags: int) -> tuple[CUresult]:
        status = self._gpu._enter("cuDevicePrimaryCtxSetFlags", context=False)
        if not status:
            self._gpu.flags = flags
        return (status,)

    def cuDevicePrimaryCtxRetain(self, dev: int) -> tuple[Any, ...]:
        status = self._gpu._enter("cuDevicePrimaryCtxRetain", context=False)
        if status:
            return status, None
        self._gpu.used += self._gpu.overhead["context"] if not self._gpu.retained else 0
        self._gpu.retained += 1
        return OK, CUcontext(0xC0)

    def cuDevicePrimaryCtxRelease(self, dev: int) -> tuple[CUresult]:
        status = self._gpu._enter("cuDevicePrimaryCtxRelease", context=False)
        if not status:
            self._gpu.retained -= 1
            self._gpu.used -= self._gpu.overhead["context"] if not self._gpu.retained else 0
        return (status,)

    def cuCtxSetCurrent(self, ctx: CUcontext) -> tuple[CUresult]:
        status = self._gpu._enter("cuCtxSetCurrent", context=False)
        if not status:
            self._gpu.stack()[-1] = int(ctx)
        return (status,)

    def cuCtxPopCurrent(self) -> tuple[Any, ...]:
        status = self._gpu._enter("cuCtxPopCurrent", context=False)
        return (status, None) if status else (OK, CUcontext(self._gpu.pop()))

    def cuCtxGetStreamPriorityRange(self) -> tuple[Any, ...]:
        status = self._gpu._enter("cuCtxGetStreamPriorityRange")
        return (status, None, None) if status else (OK, 0, -5)

    def cuMemGetInfo(self) -> tuple[Any, ...]:
        status = self._gpu._enter("cuMemGetInfo")
        if status:
            return status, None, None
        return OK, self._gpu.total - self._gpu.used, self._gpu.total

    def cuMemAlloc(self, bytesize: int) -> tuple[Any, ...]:
        gpu = self._gpu
        with gpu.lock:
            status = gpu._enter("cuMemAlloc") or gpu._unsafe()
            if status or not bytesize:
                return status or CUresult.CUDA_ERROR_INVALID_VALUE, None
            made = gpu._allocate(bytesize, host=False)
        if made is None:
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY, None
        return OK, CUdeviceptr(made.pointer)

    def cuMemFree(self, dptr: int) -> tuple[CUresult]:
        with self._gpu.lock:
            status = self._gpu._enter("cuMemFree") or self._gpu._unsafe()
            return (status or self._gpu._free(int(dptr), host=False),)

    def cuMemHostAlloc(self, bytesize: int, Flags: int) -> tuple[Any, ...]:
        gpu = self._gpu
        with gpu.lock:
            status = gpu._enter("cuMemHostAlloc") or gpu._unsafe()
            if status or not bytesize:
                return status or CUresult.CUDA_ERROR_INVALID_VALUE, None
            made = gpu._allocate(bytesize, host=True, mapped=bool(Flags & 2))
        return (OK, made.pointer) if made else (CUresult.CUDA_ERROR_OUT_OF_MEMORY, None)

    def cuMemFreeHost(self, p: int) -> tuple[CUresult]:
        with self._gpu.lock:
            status = self._gpu._enter("cuMemFreeHost") or self._gpu._unsafe()
            return (status or self._gpu._free(int(p), host=True),)

    def cuMemHostGetDevicePointer(self, p: int, Flags: int) -> tuple[Any, ...]:
        status = self._gpu._enter("cuMemHostGetDevicePointer")
        found = any(each.pointer == p and each.mapped for each in self._gpu.memory)
        if status or not found:
            return status or CUresult.CUDA_ERROR_INVALID_VALUE, None
        return OK, CUdeviceptr(p)

    def cuMemcpyAsync(self, dst: int, src: int, ByteCount: int, hStream: int) -> tuple[CUresult]:
        gpu = self._gpu
        with gpu.lock:
            status = gpu._enter("cuMemcpyAsync")
            if status:
                return (status,)
            stream = gpu.streams.get(int(hStream))
            capturing = stream is not None and stream.capture is not None
            try:
                work = gpu._copy_work(int(dst), int(src), ByteCount, capturing)
            except Fault:
                return (CUresult.CUDA_ERROR_INVALID_VALUE,)
            return (gpu._enqueue(int(hStream), Node(MEMCPY, work)),)

    def cuMemsetD8Async(self, dstDevice: int, uc: int, N: int, hStream: int) -> tuple[CUresult]:
        gpu, pointer = self._gpu, int(dstDevice)

        def work() -> None:
            gpu._lies(pointer, N)
            ctypes.memset(pointer, uc, N)

        with gpu.lock:
            status = gpu._enter("cuMemsetD8Async")
            return (status or gpu._enqueue(int(hStream), Node(MEMSET, work)),)

    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> tuple[Any, ...]:
        with self._gpu.lock:
            status = self._gpu._enter("cuStreamCreateWithPriority")
            if status:
                return status, None
            handle = self._gpu._handle()
            self._gpu.streams[handle] = Stream(flags, priority)
            return OK, CUstream(handle)

    def cuStreamDestroy(self, hStream: int) -> tuple[CUresult]:
        with self._gpu.lock:
            status = self._gpu._enter("cuStreamDestroy")
            if status:
                return (status,)
            stream = self._gpu.streams.pop(int(hStream), None)
            return (OK if stream else CUresult.CUDA_ERROR_INVALID_HANDLE,)

    def cuStreamSynchronize(self, hStream: int) -> tuple[CUresult]:
        gpu = self._gpu
        with gpu.lock:
            status = gpu._enter("cuStreamSynchronize")
            if status:
                return (status,)
            stream = gpu.streams[int(hStream)]
            if stream.capture is not None:
                stream.capture.valid = False
                return (CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,)
            return (gpu._run(stream),)

    def cuEventCreate(self, Flags: int) -> tuple[Any, ...]:
        with self._gpu.lock:
            status = self._gpu._enter("cuEventCreate")
            if status:
                return status, None
            handle = self._gpu._handle()
            self._gpu.events[handle] = None
            return OK, CUevent(handle)

    def cuEventRecord(self, hEvent: int, hStream: int) -> tuple[CUresult]:
        gpu, event = self._gpu, int(hEvent)

        def work() -> None:
            gpu.events[event] = gpu.seconds

        with gpu.lock:
            status = gpu._enter("cuEventRecord")
            if status:
                return (status,)
            gpu.events[event] = None
            return (gpu._enqueue(int(hStream), Node(KERNEL, work, "event", 0.0)),)

    def cuEventElapsedTime(self, hStart: int, hEnd: int) -> tuple[Any, ...]:
        status = self._gpu._enter("cuEventElapsedTime")
        if status:
            return status, None
        times = [self._gpu.events.get(int(each), -1.0) for each in (hStart, hEnd)]
        if -1.0 in times:
            return CUresult.CUDA_ERROR_INVALID_HANDLE, None
        earlier, later = times
        if earlier is None or later is None:
            return CUresult.CUDA_ERROR_NOT_READY, None
        return OK, (later - earlier) * 1e3

    def cuEventDestroy(self, hEvent: int) -> tuple[CUresult]:
        with self._gpu.lock:
            status = self._gpu._enter("cuEventDestroy")
            if not status:
                del self._gpu.events[int(hEvent)]
            return (status,)


class NvmlError(Exception): ...


def install_nvml(monkeypatch: Any, gpu: FakeGpu) -> types.ModuleType:
    """The same for `cuda.bindings.nvml`, the part of it that is used."""

    def free(device: int) -> types.SimpleNamespace:
        assert device == 0xCA4D
        return types.SimpleNamespace(free=gpu.total - gpu.used)

    def handle(pci_bus_id: str) -> int:
        if pci_bus_id != gpu.bus:
            raise NvmlError("Not Found")
        return 0xCA4D

    nvml = module(
        "cuda.bindings.nvml",
        NvmlError=NvmlError,
        init_v2=lambda: None,
        shutdown=lambda: None,
        device_get_handle_by_pci_bus_id_v2=handle,
        device_get_memory_info_v2=free,
    )
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", nvml)
    monkeypatch.setattr(sys.modules["cuda.bindings"], "nvml", nvml, raising=False)
    return nvml


def install(monkeypatch: Any, gpu: FakeGpu) -> types.ModuleType:
    """Put the fake in the place of `cuda.bindings.driver` until the test is over."""
    driver = module("cuda.bindings.driver")
    functions = Functions(gpu)
    for name in dir(functions):
        if name.startswith("cu"):
            setattr(driver, name, getattr(functions, name))
    for each in (*ENUMS, *HANDLES, *RECORDS):
        setattr(driver, each.__name__, each)
    for name, value in CONSTANTS.items():
        setattr(driver, name, value)
    bindings = module("cuda.bindings", driver=driver)
    package = module("cuda", bindings=bindings)
    for each in (package, bindings, driver):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    monkeypatch.setattr(held, "library", lambda: Library(gpu))
    return driver


def module(name: str, **attributes: Any) -> types.ModuleType:
    """A module that `importlib.util.find_spec` finds once it is in `sys.modules`."""
    made = types.ModuleType(name)
    made.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    made.__path__ = []
    for key, value in attributes.items():
        setattr(made, key, value)
    return made

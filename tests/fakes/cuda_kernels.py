"""The functions of `cuda.bindings.driver` that load and launch kernels, on a fake GPU."""

# ruff: noqa: N802, N803 - the names are CUDA's

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tests.fakes.cuda_names import (
    KERNEL,
    OK,
    CUfunction,
    CUlaunchAttributeID,
    CUlaunchConfig,
    CUmodule,
    CUresult,
)
from tests.fakes.gpu import FakeGpu, Launch, Node

SERIALIZATION = CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
THREADS, SHARED = 1024, 48 << 10
"""The most that a block may have, of bytes unless more are asked for."""


class KernelFunctions:
    """Every module has the kernels that the test gave its `FakeGpu`, whatever the code says."""

    def __init__(self, gpu: FakeGpu) -> None:
        self._gpu = gpu
        self._names: dict[int, str] = {}

    def cuModuleLoadData(self, image: bytes) -> tuple[Any, ...]:
        gpu = self._gpu
        with gpu.lock:
            status = gpu._enter("cuModuleLoadData")
            if status:
                return status, None
            handle = gpu._handle()
            gpu.modules.add(handle)
            gpu.used += gpu.overhead["module"]
        return OK, CUmodule(handle)

    def cuModuleUnload(self, hmod: CUmodule) -> tuple[CUresult]:
        gpu = self._gpu
        with gpu.lock:
            status = gpu._enter("cuModuleUnload")
            if status or int(hmod) not in gpu.modules:
                return (status or CUresult.CUDA_ERROR_INVALID_HANDLE,)
            gpu.modules.remove(int(hmod))
            gpu.used -= gpu.overhead["module"]
        return (OK,)

    def cuModuleGetFunction(self, hmod: CUmodule, name: bytes) -> tuple[Any, ...]:
        status = self._gpu._enter("cuModuleGetFunction")
        if status or name.decode() not in self._gpu.kernels:
            return status or CUresult.CUDA_ERROR_NOT_FOUND, None
        handle = self._gpu._handle()
        self._names[handle] = name.decode()
        return OK, CUfunction(handle)

    def cuLaunchKernel(
        self,
        f: CUfunction,
        gridDimX: int,
        gridDimY: int,
        gridDimZ: int,
        blockDimX: int,
        blockDimY: int,
        blockDimZ: int,
        sharedMemBytes: int,
        hStream: int,
        kernelParams: tuple[tuple[Any, ...], tuple[Any, ...]],
        extra: int,
    ) -> tuple[CUresult]:
        grid, threads = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
        return self._launch(
            "cuLaunchKernel", f, grid, threads, sharedMemBytes, hStream, kernelParams
        )

    def cuLaunchKernelEx(
        self,
        config: CUlaunchConfig,
        f: CUfunction,
        kernelParams: tuple[tuple[Any, ...], tuple[Any, ...]],
        extra: int,
    ) -> tuple[CUresult]:
        assert config.numAttrs == len(config.attrs)
        early = any(
            each.id is SERIALIZATION and each.value.programmaticStreamSerializationAllowed
            for each in config.attrs
        )
        grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
        threads = (config.blockDimX, config.blockDimY, config.blockDimZ)
        return self._launch(
            "cuLaunchKernelEx", f, grid, threads, config.sharedMemBytes, config.hStream,
            kernelParams, early,
        )  # fmt: skip

    def _launch(
        self,
        call: str,
        f: CUfunction,
        grid: tuple[int, int, int],
        threads: tuple[int, int, int],
        shared: int,
        stream: Any,
        given: tuple[tuple[Any, ...], tuple[Any, ...]],
        early: bool = False,
    ) -> tuple[CUresult]:
        gpu, name = self._gpu, self._names[int(f)]
        values, types = given
        if len(values) != len(types) or not 0 < math.prod(threads) <= THREADS:
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        if not math.prod(grid) or shared > SHARED:
            return (CUresult.CUDA_ERROR_INVALID_VALUE,)
        with gpu.lock:
            status = gpu._enter(call)
            if not status:
                gpu.launches.append(Launch(name, grid, threads, shared, values, early))
            work = partial(gpu.kernels[name], *values)
            return (status or gpu._enqueue(int(stream), Node(KERNEL, work, name)),)

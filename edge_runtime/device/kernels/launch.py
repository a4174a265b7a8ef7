"""Kernels in a row on one stream, each beginning while the one before it ends."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edge_runtime.device.cuda.status import check, failure
from edge_runtime.device.cuda.stream import CudaStream

if TYPE_CHECKING:
    from edge_runtime.device.cuda.device import CudaDevice

OVERLAP = (9, 0)
"""Compute capability from which a kernel may begin before the one before it is over."""

CAPTURED = 12030
"""CUDA of the first driver that takes such an order into a graph, as it says it."""


class Number(int):
    """An argument that is a number of 32 bits; a plain `int` is an address."""


@dataclass(frozen=True)
class Launch:
    """A kernel by name: blocks, threads of each, what it is given, bytes of shared memory."""

    kernel: str
    grid: tuple[int, int, int]
    threads: int
    arguments: Sequence[int]
    shared: int = 0


class Launches:
    """A call that enqueues kernels on one stream.

    On GPUs of capability 9.0 and up a kernel starts when all blocks of the one before it
    have, and reads what that one made only behind `griddepcontrol.wait`: programmatic
    dependent launch, as the CUDA programming guide calls it. What it reads before that, no
    kernel of the row may write. The first begins when all earlier work is over.
    """

    def __init__(
        self,
        device: CudaDevice,
        kernels: Mapping[str, Any],
        launches: Sequence[Launch],
        stream: CudaStream,
        kept: object,
        name: str,
    ) -> None:
        """`kernels` as a `Module` has them; `kept` is held, for launches name its memory."""
        from cuda.bindings import driver as cuda

        self.name = name
        self._cuda = cuda
        self._driver = device.driver
        self._kept = kept
        device.driver.current()
        version = check("cuDriverGetVersion", cuda.cuDriverGetVersion())
        overlap = device.driver.capability >= OVERLAP and version >= CAPTURED
        self._made = [
            (self._config(each, stream, overlap and place > 0), kernels[each.kernel], _typed(each))
            for place, each in enumerate(launches)
        ]

    def __call__(self) -> None:
        self._driver.current()
        launch = self._cuda.cuLaunchKernelEx
        for config, kernel, arguments in self._made:
            (status,) = launch(config, kernel, arguments, 0)
            if status:
                raise failure("cuLaunchKernelEx", status, f"{self.name} failed")

    def _config(self, launch: Launch, stream: CudaStream, overlap: bool) -> Any:
        cuda = self._cuda
        config = cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = launch.threads, 1, 1
        config.sharedMemBytes = launch.shared
        config.hStream = cuda.CUstream(stream.handle)
        if overlap:
            attribute = cuda.CUlaunchAttribute()
            kinds = cuda.CUlaunchAttributeID
            attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attribute.value.programmaticStreamSerializationAllowed = 1
            config.attrs = [attribute]
            config.numAttrs = 1
        return config


def _typed(launch: Launch) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Values and their C types, as cuda-bindings wants them."""
    kinds = [
        ctypes.c_int if isinstance(each, Number) else ctypes.c_void_p for each in launch.arguments
    ]
    return tuple(int(each) for each in launch.arguments), tuple(kinds)

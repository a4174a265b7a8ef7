"""onnxruntime on the CPU, with IO binding: calls read and write preallocated buffers."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.device.base import Buffer, Call, Counters, Graph, Kind, Samples, Stream
from edge_runtime.device.onnx_program import OnnxProgram, open_session
from edge_runtime.errors import DeviceError


class HostBuffer:
    """Memory of the host: `host` lies at byte `first` of the allocation `owner`."""

    def __init__(
        self, host: NDArray[Any], owner: NDArray[np.uint8] | None = None, first: int = 0
    ) -> None:
        self.host = host
        self._bytes = host.reshape(-1).view(np.uint8) if owner is None else owner
        self._first = first

    @property
    def shape(self) -> tuple[int, ...]:
        return self.host.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.host.dtype

    @property
    def pointer(self) -> int:
        return self.host.ctypes.data

    def view(self, shape: tuple[int, ...], offset: int = 0, dtype: Any = None) -> HostBuffer:
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        first = self._first + offset * self.dtype.itemsize
        last = first + math.prod(shape) * dtype.itemsize
        if first < 0 or last > self._bytes.size:
            raise DeviceError(f"a view of {shape} at {offset} leaves a buffer of {self.shape}")
        return HostBuffer(self._bytes[first:last].view(dtype).reshape(shape), self._bytes, first)


class HostMark:
    """A moment, as the host's clock says."""

    def __init__(self) -> None:
        self.seconds = time.perf_counter()

    def since(self, earlier: Any) -> float:
        return float(self.seconds - earlier.seconds)


class HostStream:
    """The calling thread: every call is over when it returns."""

    def __init__(self) -> None:
        self.counters = Counters()

    def synchronize(self) -> None:
        return None

    def mark(self) -> HostMark:
        return HostMark()


class HostGraph:
    """Nothing to capture on a CPU: replaying makes the call."""

    def __init__(self, call: Call) -> None:
        self.replay = call

    def close(self) -> None:
        return None


class OnnxDevice:
    """The CPU: one lane for each core, `threads` threads inside a call."""

    suffix = ".onnx"
    integrated = True
    batches = False
    rounds = False
    chained = 1

    def __init__(self, threads: int = 1, lanes: int | None = None) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        self.name = "cpu"
        self.lanes = lanes or max(1, cores // threads)
        self._threads = threads

    def alloc(self, shape: tuple[int, ...], dtype: Any, kind: Kind = "device") -> HostBuffer:
        try:
            return HostBuffer(np.zeros(shape, dtype))
        except MemoryError:
            size = math.prod(shape) * np.dtype(dtype).itemsize
            raise DeviceError(
                f"no memory for {size} bytes", "Close sessions or programs."
            ) from None

    def load(self, plan: Path) -> OnnxProgram:
        session = open_session(plan, ["CPUExecutionProvider"], self._threads)
        return OnnxProgram(session, plan.stem)

    def encoder(self, folder: Path) -> None:
        return None

    def decoder(self, folder: Path) -> None:
        return None

    def stream(self) -> HostStream:
        return HostStream()

    def copy(self, source: Buffer, target: Buffer, stream: Stream, kind: str) -> None:
        target.host[...] = source.host

    def copy_columns(
        self, buffer: Buffer, source: int, target: int, count: int, stream: Stream, kind: str
    ) -> None:
        buffer.host[:, target : target + count] = buffer.host[:, source : source + count]

    def stage(self, pieces: Sequence[Samples], target: Buffer, stream: Stream) -> None:
        at = 0
        for piece in pieces:
            target.host[at : at + len(piece)] = piece
            at += len(piece)
        target.host[at:] = 0.0

    def capture(self, call: Call, stream: Stream) -> Graph:
        return HostGraph(call)

    def close(self) -> None:
        return None

"""A GPU: its memory, streams, copies and captures. How programs run is added by subclasses."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.device.base import Buffer, Call, Graph, Kind, Program, Samples, Stream
from edge_runtime.device.cuda.arena import Arena
from edge_runtime.device.cuda.base import Driver
from edge_runtime.device.cuda.budget import Budget, What
from edge_runtime.device.cuda.card import resident
from edge_runtime.device.cuda.gather import KERNEL, MOST, SOURCE, Gather
from edge_runtime.device.cuda.memory import CudaBuffer
from edge_runtime.device.cuda.module import Module
from edge_runtime.device.cuda.nvrtc import compiled
from edge_runtime.device.cuda.outlay import Outlay
from edge_runtime.device.cuda.stream import CudaMark, CudaStream
from edge_runtime.device.graph import CallGraph, CudaGraph
from edge_runtime.errors import DeviceError, DeviceLost, MemoryCapped, MissingExtra

__all__ = ["CudaDevice", "CudaMark", "CudaStream"]

FLOAT32 = np.dtype(np.float32)

_log = logging.getLogger(__name__)


class CudaDevice:
    """All of `Device` but `load`, which a subclass adds, with `suffix` and the name if it differs.

    `priority` is that of the streams in CUDA's numbers, lower is more urgent, brought into the
    range that the GPU has. With `graphs` off, a captured call is just called. `budget` counts
    and caps all memory, that of the process too where the GPU is integrated. `driver` is closed
    with the device, and where it cannot be made. Raises `DeviceError`, as every method does where
    CUDA refuses.
    """

    suffix = ".plan"
    batches = True
    rounds = True
    chained = 1
    ordered = False
    """Whether work of the streams and of CUDA's default stream wait for each other."""

    def __init__(
        self,
        driver: Driver,
        *,
        budget: Budget | None = None,
        priority: int = 0,
        lanes: int = 1,
        graphs: bool = True,
    ) -> None:
        self.driver = driver
        self.budget = budget or Budget()
        if driver.integrated:
            self.budget.resident = resident
        try:
            self.outlay = Outlay(driver, self.budget)
        except DeviceError:
            driver.close()
            raise
        self.name = driver.name
        self.integrated = driver.integrated
        self.lanes = lanes
        self.graphs = graphs
        self._priority = priority
        self._arena = Arena(driver, self.budget)
        self._streams: list[CudaStream] = []
        self._modules: list[Module] = []
        self.gathering: Gather | None = None
        """The kernel that reads staged audio where it lies, after `gather`."""
        # Memory is zeroed here, so that no stream at work waits for it.
        self._chores = driver.stream()
        self._closed = False

    def alloc(self, shape: tuple[int, ...], dtype: Any, kind: Kind = "device") -> CudaBuffer:
        """See `Device`. On an integrated GPU, pinned memory is mapped as well."""
        self._open()
        if kind == "pinned" and self.integrated:
            kind = "mapped"
        size = math.prod(shape) * np.dtype(dtype).itemsize
        what: What = "device" if kind == "device" else "pinned"
        buffer = CudaBuffer(self._arena.alloc(size, kind, what), shape, dtype)
        if kind == "device":
            self.driver.fill(buffer.pointer, size, self._chores)
            self.driver.synchronize(self._chores)
        else:
            buffer.host[...] = np.zeros((), dtype)
        return buffer

    def take(self, size: int, what: What = "engine") -> int:
        """The address of `size` bytes of device memory, for a library; counted and capped.

        A multiple of 256, not zeroed; `give` releases it.
        """
        self._open()
        return self._arena.take(size, what)

    def give(self, pointer: int) -> None:
        """Release what `take` gave."""
        self._arena.give(pointer)

    def reclaim(self) -> None:
        """Release the memory that nobody holds any more, as the next allocation would."""
        self._arena.reclaim()

    def module(self, code: bytes, kernels: Sequence[str]) -> Module:
        """Machine code with these kernels, unloaded when the device is closed."""
        self._open()
        with self.outlay.counted():
            module = Module(self.driver, code, kernels)
            self._modules.append(module)
        return module

    def gather(self) -> bool:
        """Let one kernel read staged audio where it lies; False, with a warning, where none can."""
        try:
            code = compiled(SOURCE, self.driver.capability, {})
            self.gathering = Gather(self.module(code, [KERNEL]))
        except DeviceLost:
            raise
        except (MissingExtra, DeviceError) as error:
            _log.warning("audio is copied to the GPU, no kernel gathers it: %s", error)
            return False
        return True

    def encoder(self, folder: Path) -> Program | None:
        """See `Device`; none but what a subclass adds."""
        return None

    def decoder(self, folder: Path) -> Program | None:
        """See `Device`; none but what a subclass adds."""
        return None

    def stream(self) -> CudaStream:
        self._open()
        stream = CudaStream(self.driver, self._arena, self._priority, self.ordered)
        self._streams.append(stream)
        return stream

    def copy(self, source: Buffer, target: Buffer, stream: Stream, kind: str) -> None:
        """See `Device`; a `DeviceError` where the two differ in dtype or number of elements."""
        size = _size(source)
        if source.dtype != target.dtype or size != _size(target):
            raise DeviceError(
                f"{source.dtype} of {source.shape} cannot be copied ({kind}) "
                f"to {target.dtype} of {target.shape}"
            )
        own = _own(stream)
        if size:
            self.driver.copy(target.pointer, source.pointer, size, own.handle)
        own.copied(kind, size, source, target)

    def copy_columns(
        self, buffer: Buffer, source: int, target: int, count: int, stream: Stream, kind: str
    ) -> None:
        """See `Device`; a `DeviceError` where columns overlap or leave the buffer."""
        rows, columns = buffer.shape
        first, last = min(source, target), max(source, target)
        if first < 0 or last + count > columns or first + count > last:
            raise DeviceError(
                f"{count} columns at {source} of {buffer.shape} cannot be copied ({kind}) "
                f"to {target}"
            )
        own, each = _own(stream), buffer.dtype.itemsize
        if rows and count:
            there, here = (buffer.pointer + at * each for at in (target, source))
            self.driver.copy_rows(there, here, columns * each, count * each, rows, own.handle)
        own.copied(kind, rows * count * each, buffer)

    def stage(self, pieces: Sequence[Samples], target: Buffer, stream: Stream) -> None:
        """See `Device`; counted as `audio`.

        A piece is any contiguous float32 array: of pinned memory, or the call waits while it is
        read. After `gather`, one kernel reads up to two pieces of mapped memory. Raises
        `DeviceError` for another, and where they are longer than `target`.
        """
        own = _own(stream)
        size = _size(target)
        total = sum(_checked(piece) for piece in pieces)
        if target.dtype != FLOAT32 or total > size:
            raise DeviceError(
                f"{total} bytes of float32 samples do not fit {target.dtype} of {target.shape}"
            )
        if not self._gathered(pieces, target.pointer, size, own):
            self._copied(pieces, target.pointer, size, own)
        own.copied("audio", total, *pieces, target)

    def _gathered(self, pieces: Sequence[Samples], row: int, size: int, stream: CudaStream) -> bool:
        """Whether a kernel could do it: where it was asked for, and sees all that there is."""
        if self.gathering is None or not size:
            return False
        seen: list[tuple[int, int]] = []
        for piece in pieces:
            if not piece.nbytes:
                continue
            at = self._arena.seen(piece.ctypes.data, piece.nbytes)
            if at is None or len(seen) == MOST:
                return False
            seen.append((at, piece.size))
        self.driver.current()
        self.gathering(row, size // FLOAT32.itemsize, seen, stream.handle)
        return True

    def _copied(self, pieces: Sequence[Samples], row: int, size: int, stream: CudaStream) -> None:
        end = row + size
        for piece in pieces:
            if piece.nbytes:
                self.driver.copy(row, piece.ctypes.data, piece.nbytes, stream.handle)
                row += piece.nbytes
        if row < end:
            self.driver.fill(row, end - row, stream.handle)

    def capture(self, call: Call, stream: Stream) -> Graph:
        """See `Device`: a `CudaGraph`, or a `CallGraph` where `graphs` is off.

        In errors it is called what the call is: by its `name`, else its qualified name.
        """
        own = _own(stream)
        if not self.graphs:
            return CallGraph(call)
        graph: CudaGraph | None = None
        try:
            with self.outlay.counted():
                graph = CudaGraph(own, call, self.outlay.returned)
        except MemoryCapped:
            if graph is not None:
                graph.close()
            raise
        return graph

    def close(self) -> None:
        """Release everything: streams, graphs, memory, and the context. Twice is once.

        A lost device is let go as far as it can be. See `Arena.close` for arrays that are
        still held.
        """
        if self._closed:
            return
        self._closed = True
        for stream in self._streams:
            stream.close()
        self._streams.clear()
        self.gathering = None
        for module in self._modules:
            module.close()
        self._modules.clear()
        with contextlib.suppress(DeviceLost):
            self.driver.release_stream(self._chores)
        self.budget.found(0)
        if self._arena.close():
            with contextlib.suppress(DeviceLost):
                self.driver.close()

    def _open(self) -> None:
        if self._closed:
            raise DeviceError(f"{self.name} is used after it was closed")


def _own(stream: Stream) -> CudaStream:
    if not isinstance(stream, CudaStream):
        raise DeviceError(f"a {type(stream).__name__} is not a stream of a GPU")
    return stream


def _size(buffer: Buffer) -> int:
    if isinstance(buffer, CudaBuffer):
        return buffer.nbytes
    return int(math.prod(buffer.shape) * buffer.dtype.itemsize)


def _checked(piece: Samples) -> int:
    """The bytes of a piece of audio that can be copied as it lies."""
    if piece.dtype != FLOAT32 or not piece.flags.c_contiguous:
        raise DeviceError(
            f"a piece of {piece.dtype} with strides {piece.strides} cannot be staged",
            "Give contiguous float32 samples.",
        )
    return piece.nbytes

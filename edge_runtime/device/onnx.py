"""onnxruntime on the CPU, with IO binding: calls read and write preallocated buffers."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edge_runtime.device.base import (
    Buffer,
    Call,
    Counters,
    Graph,
    Kind,
    Samples,
    Stream,
    TensorSpec,
)
from edge_runtime.errors import DeviceError, ModelDamaged, ModelMissing

_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}


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

    def since(self, earlier: HostMark) -> float:
        return self.seconds - earlier.seconds


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


class OnnxProgram:
    """A graph in an onnxruntime session; safe to run from several threads."""

    def __init__(self, session: ort.InferenceSession, name: str) -> None:
        self._session = session
        self._name = name
        self.inputs = {arg.name: _spec(arg) for arg in session.get_inputs()}
        self.outputs = {arg.name: _spec(arg) for arg in session.get_outputs()}

    def bind(self, bindings: Mapping[str, Buffer], stream: Stream) -> Call:
        binding = self._session.io_binding()
        for name, spec in self.inputs.items():
            if name not in bindings:
                raise DeviceError(f"{self._name}: input {name!r} is not bound")
            _bind(binding.bind_input, spec, bindings[name], self._name)
        for name in bindings.keys() - self.inputs.keys():
            if name not in self.outputs:
                raise DeviceError(f"{self._name}: has no tensor {name!r}")
            _bind(binding.bind_output, self.outputs[name], bindings[name], self._name)
        options = ort.RunOptions()
        kept = dict(bindings)

        def call() -> None:
            try:
                self._session.run_with_iobinding(binding, options)
            except Exception as error:  # onnxruntime's errors share no base but Exception
                shapes = {name: buffer.shape for name, buffer in kept.items()}
                raise DeviceError(f"{self._name} failed with {shapes}: {error}") from error

        return call


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
        if not plan.is_file():
            raise ModelMissing(f"{plan} does not exist", "Run: edge-runtime pull MODEL")
        options = ort.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        # Patterns are kept for every shape that was ever seen: with ours that never ends.
        options.enable_mem_pattern = False
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            session = ort.InferenceSession(str(plan), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors share no base but Exception
            raise ModelDamaged(
                f"{plan} cannot be loaded: {error}", "Run: edge-runtime pull MODEL --again"
            ) from error
        return OnnxProgram(session, plan.stem)

    def stream(self) -> HostStream:
        return HostStream()

    def copy(self, source: Buffer, target: Buffer, stream: Stream, kind: str) -> None:
        target.host[...] = source.host

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


def _spec(arg: Any) -> TensorSpec:
    shape = tuple(size if isinstance(size, int) else None for size in arg.shape)
    return TensorSpec(arg.name, np.dtype(_DTYPES[arg.type]), shape)


def _bind(bind: Any, spec: TensorSpec, buffer: Buffer, program: str) -> None:
    if buffer.dtype != spec.dtype or len(buffer.shape) != len(spec.shape):
        raise DeviceError(
            f"{program}: {spec.name!r} wants {spec.dtype} of {spec.shape}, "
            f"got {buffer.dtype} of {buffer.shape}"
        )
    bind(spec.name, "cpu", 0, spec.dtype.type, buffer.shape, buffer.host.ctypes.data)

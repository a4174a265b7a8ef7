"""A graph in an onnxruntime session, its calls bound once to the memory they work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from edge_runtime.device.base import Buffer, Call, Stream, TensorSpec
from edge_runtime.errors import DeviceError, ModelDamaged, ModelMissing

_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(bool)": np.bool_,
}

Provider = str | tuple[str, dict[str, str]]


def open_session(
    plan: Path, providers: Sequence[Provider], threads: int = 1
) -> ort.InferenceSession:
    """`plan` with the first of `providers` that takes each of its nodes.

    Raises `ModelMissing` or `ModelDamaged`.
    """
    if not plan.is_file():
        raise ModelMissing(f"{plan} does not exist", "Run: edge-runtime pull MODEL")
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Patterns are kept for every shape that was ever seen: with ours that never ends.
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        # Without this, a provider that fails is replaced in silence.
        return ort.InferenceSession(str(plan), options, providers=providers, enable_fallback=0)
    except Exception as error:  # onnxruntime's errors share no base but Exception
        raise ModelDamaged(
            f"{plan} cannot be loaded: {_line(error)}", "Run: edge-runtime pull MODEL --again"
        ) from error


class OnnxProgram:
    """A session whose tensors lie on `place`, (kind of memory, number), as onnxruntime says it.

    Safe to run from several threads.
    """

    def __init__(
        self,
        session: ort.InferenceSession,
        name: str,
        place: tuple[str, int] = ("cpu", 0),
        entries: Mapping[str, str] | None = None,
    ) -> None:
        """`entries` are options of every run."""
        self._session = session
        self._name = name
        self._place = place
        self._entries = dict(entries or {})
        self.inputs = {arg.name: _spec(arg) for arg in session.get_inputs()}
        self.outputs = {arg.name: _spec(arg) for arg in session.get_outputs()}

    def bind(self, bindings: Mapping[str, Buffer], stream: Stream) -> Call:
        session = self._session
        binding = session.io_binding()
        for name, spec in self.inputs.items():
            if name not in bindings:
                raise DeviceError(f"{self._name}: input {name!r} is not bound")
            self._bind(binding.bind_input, spec, bindings[name])
        for name in bindings.keys() - self.inputs.keys():
            if name not in self.outputs:
                raise DeviceError(f"{self._name}: has no tensor {name!r}")
            self._bind(binding.bind_output, self.outputs[name], bindings[name])
        options = ort.RunOptions()
        for key, value in self._entries.items():
            options.add_run_config_entry(key, value)
        kept = dict(bindings)
        again = [(self.inputs[name], bindings[name]) for name in self._taken_when_bound()]

        def call() -> None:
            try:
                for spec, buffer in again:
                    self._bind(binding.bind_input, spec, buffer)
                session.run_with_iobinding(binding, options)
            except Exception as error:  # onnxruntime's errors share no base but Exception
                shapes = {name: buffer.shape for name, buffer in kept.items()}
                raise self._failure(f"{self._name} failed with {shapes}: {_line(error)}") from error

        return call

    def _taken_when_bound(self) -> list[str]:
        """Inputs whose values onnxruntime takes when they are bound: to be bound for each call."""
        return []

    def _failure(self, message: str) -> DeviceError:
        return DeviceError(message)

    def _bind(self, bind: Any, spec: TensorSpec, buffer: Buffer) -> None:
        if buffer.dtype != spec.dtype or len(buffer.shape) != len(spec.shape):
            raise DeviceError(
                f"{self._name}: {spec.name!r} wants {spec.dtype} of {spec.shape}, "
                f"got {buffer.dtype} of {buffer.shape}"
            )
        bind(spec.name, *self._place, spec.dtype.type, buffer.shape, buffer.pointer)


def _spec(arg: Any) -> TensorSpec:
    shape = tuple(size if isinstance(size, int) else None for size in arg.shape)
    return TensorSpec(arg.name, np.dtype(_DTYPES[arg.type]), shape)


def _line(error: Exception) -> str:
    """What onnxruntime says, on one line and without its full stop: some versions break lines."""
    return " ".join(str(error).split()).rstrip(".")

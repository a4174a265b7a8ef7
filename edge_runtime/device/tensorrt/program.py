"""A loaded plan: its calls are bound to buffers and a stream, and allocate nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edge_runtime.device.base import Buffer, Call, Stream, TensorSpec
from edge_runtime.device.cuda.stream import CudaStream
from edge_runtime.device.tensorrt.binding import Binding
from edge_runtime.device.tensorrt.engine import Engine
from edge_runtime.device.tensorrt.tensors import (
    ALIGNMENT,
    Profile,
    Shape,
    read_profiles,
    read_specs,
    text,
)
from edge_runtime.errors import DeviceError

if TYPE_CHECKING:
    from edge_runtime.device.tensorrt.device import TensorRTDevice


class TensorRTProgram:
    """A plan on its device; safe to bind and call from several threads, a stream in each."""

    def __init__(self, device: TensorRTDevice, engine: Engine) -> None:
        self.engine = engine
        self.name = engine.name
        self.inputs, self.outputs = read_specs(engine)
        self.profiles = read_profiles(engine, self.inputs)
        self._device = device

    def bind(self, bindings: Mapping[str, Buffer], stream: Stream) -> Call:
        """A call with an execution context of its own, which has been run once into the void.

        Outputs may be left out: what TensorRT writes there lands in memory that the
        stream's calls share. Raises `DeviceError` for a tensor that is missing, unknown,
        of the wrong type or shape, or not aligned, saying what is allowed; for shapes
        that no profile holds; and where there is no memory.
        """
        for name in self.inputs.keys() - bindings.keys():
            raise DeviceError(f"{self.name}: input {name!r} is not bound")
        for name, buffer in bindings.items():
            self._check(name, buffer)
        shapes = {name: bindings[name].shape for name in self.inputs}
        if not isinstance(stream, CudaStream):
            raise DeviceError(f"a {type(stream).__name__} is not a stream of a GPU")
        return Binding(self._device, self, bindings, stream, self._profile(shapes)).call()

    def _check(self, name: str, buffer: Buffer) -> None:
        spec = self.inputs.get(name) or self.outputs.get(name)
        if spec is None:
            raise DeviceError(f"{self.name}: has no tensor {name!r}")
        if buffer.dtype != spec.dtype or not _fits(buffer.shape, spec):
            raise DeviceError(
                f"{self.name}: {name!r} wants {spec.dtype} of {text(spec.shape)}, "
                f"got {buffer.dtype} of {text(buffer.shape)}"
            )
        if buffer.pointer % ALIGNMENT:
            raise DeviceError(
                f"{self.name}: {name!r} is at {buffer.pointer:#x}, "
                f"which is no multiple of {ALIGNMENT} bytes",
                "Let views begin at such multiples.",
            )

    def _profile(self, shapes: Mapping[str, Shape]) -> Profile:
        """The smallest profile that holds the shapes."""
        allowed: dict[str, list[str]] = {}
        for profile in self.profiles:
            name = profile.outside(shapes)
            if name is None:
                return profile
            allowed.setdefault(name, []).append(profile.allowed(name))
        said = [
            f"{name!r} is {text(shapes[name])}, allowed is {' or '.join(dict.fromkeys(ranges))}"
            for name, ranges in allowed.items()
        ]
        raise DeviceError(
            f"{self.name}: {'; '.join(said)}",
            "Run: edge-runtime build MODEL, for as much as this.",
        )


def _fits(shape: Shape, spec: TensorSpec) -> bool:
    return len(shape) == len(spec.shape) and all(
        wanted is None or size == wanted for size, wanted in zip(shape, spec.shape, strict=True)
    )

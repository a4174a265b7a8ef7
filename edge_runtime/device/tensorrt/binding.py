"""One execution context with its shapes, addresses and working memory set for good."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from edge_runtime.device.base import Buffer, Call, TensorSpec
from edge_runtime.device.tensorrt.tensors import ALIGNMENT, Profile, Shape, text
from edge_runtime.errors import DeviceError

if TYPE_CHECKING:
    from edge_runtime.device.cuda.stream import CudaStream
    from edge_runtime.device.tensorrt.device import TensorRTDevice
    from edge_runtime.device.tensorrt.program import TensorRTProgram


class Binding:
    """What a call is made of; `TensorRTProgram.bind` has checked what needs no context.

    Raises `DeviceError` for the rest.
    """

    def __init__(
        self,
        device: TensorRTDevice,
        program: TensorRTProgram,
        bindings: Mapping[str, Buffer],
        stream: CudaStream,
        profile: Profile,
    ) -> None:
        self._program = program
        self._name = program.name
        self._trouble = program.engine.trouble
        self._bound = dict(bindings)
        self._stream = stream
        self._current = device.driver.current
        with device.outlay.counted(), self._current():
            self._context = program.engine.context()
            self._set_shapes(profile)
            self._written = self._output_shapes()
            self._scratch = self._set_scratch()
            self._rehearse(device)

    def call(self) -> Call:
        """Enqueues the work; what it needs lives as long as it does."""
        context, handle, current, trouble = (
            self._context, self._stream.handle, self._current, self._trouble,
        )  # fmt: skip

        def call() -> None:
            trouble.clear()
            with current():
                done = context.execute_async_v3(handle)
            if not done:
                raise self._failed("failed")

        return call

    def _set_shapes(self, profile: Profile) -> None:
        context = self._context
        self._trouble.clear()
        if profile.index:  # the first one is set in a new context
            handle = self._stream.handle
            if not context.set_optimization_profile_async(profile.index, handle):
                raise self._failed(f"profile {profile.index} cannot be set")
        for name in self._program.inputs:
            if not context.set_input_shape(name, self._bound[name].shape):
                raise self._failed(f"{name!r} cannot be {text(self._bound[name].shape)}")
        try:
            missing = context.infer_shapes()
        except RuntimeError as error:
            raise self._failed(f"these shapes do not go together ({error})") from error
        if missing:
            raise self._failed(f"shapes depend on the values of {', '.join(missing)}")

    def _output_shapes(self) -> dict[str, Shape]:
        """The shape of every output, which is that of the buffer bound to it."""
        shapes = {}
        for name in self._program.outputs:
            shape = shapes[name] = tuple(self._context.get_tensor_shape(name))
            if min(shape, default=0) < 0:
                raise self._failed(f"the shape of {name!r} depends on values")
            if name in self._bound and self._bound[name].shape != shape:
                given = text(self._bound[name].shape)
                raise self._failed(f"{name!r} will be {text(shape)}, the buffer is {given}")
        return shapes

    def _set_scratch(self) -> Buffer | None:
        """What the stream's calls work in: enough for the shapes of this one."""
        most = self._program.engine.scratch_size
        if not most:
            return None
        # 0 stands for a failure too: then what any shapes need.
        size = self._context.update_device_memory_size_for_shapes() or most
        scratch = self._stream.scratch(size)
        self._context.set_device_memory(scratch.pointer, math.prod(scratch.shape))
        return scratch

    def _rehearse(self, device: TensorRTDevice) -> None:
        """Run once, writing no bound output: a first run does what no capture can hold.

        Whatever the bound outputs hold now may still be needed. Integers are read as zeros:
        what lies in the bound inputs now may be no index into anything.
        """
        program = self._program
        numbers = [name for name, spec in program.inputs.items() if _counts(spec)]
        zeros = max(
            (_size(program.inputs[name], self._bound[name].shape) for name in numbers), default=0
        )
        places, size = self._lay_out(zeros)
        sink = self._sink = device.sink(self._stream, size)
        if zeros:
            device.driver.fill(sink.pointer, zeros, self._stream.handle)
        inside = {name: buffer.pointer for name, buffer in self._bound.items()}
        outside = {name: sink.pointer + place for name, place in places.items()}
        self._set_addresses({**inside, **outside, **dict.fromkeys(numbers, sink.pointer)})
        self._trouble.clear()
        if not self._context.execute_async_v3(self._stream.handle):
            raise self._failed("failed at its first run")
        self._set_addresses(inside)

    def _lay_out(self, first: int) -> tuple[dict[str, int], int]:
        """Where in the sink each output goes in the rehearsal, from byte `first` on; the end.

        Outputs that no buffer is bound to stay there: later layers may read them, so
        each has its place. So have integers, which may be indices. The others may
        overwrite each other: nobody looks at them.
        """
        places: dict[str, int] = {}
        end, last = _whole(first), 0
        for name, spec in self._program.outputs.items():
            size = _size(spec, self._written[name])
            if name not in self._bound or _counts(spec):
                places[name] = end
                end += _whole(size)
            else:
                last = max(last, size)
        for name in self._program.outputs:
            places.setdefault(name, end)
        return places, max(end + last, ALIGNMENT)

    def _set_addresses(self, addresses: Mapping[str, int]) -> None:
        for name, address in addresses.items():
            if not self._context.set_tensor_address(name, address):
                raise self._failed(f"{name!r} cannot be at {address:#x}")

    def _failed(self, what: str) -> DeviceError:
        shapes = ", ".join(f"{name} {text(self._bound[name].shape)}" for name in self._bound)
        return self._trouble.error(f"{self._name}: {what}, bound to {shapes}")


def _counts(spec: TensorSpec) -> bool:
    """Whether it may be used as an index or a length."""
    return not np.issubdtype(spec.dtype, np.floating)


def _size(spec: TensorSpec, shape: Shape) -> int:
    return math.prod(shape) * spec.dtype.itemsize


def _whole(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT

"""The memory that TensorRT takes for itself, counted and capped with all other."""

from __future__ import annotations

from typing import Any, Protocol

from edge_runtime.device.tensorrt.module import TensorRT
from edge_runtime.device.tensorrt.trouble import Trouble
from edge_runtime.errors import DeviceError


class Memory(Protocol):
    """Memory of the device, by address."""

    def take(self, size: int) -> int:
        """The address of `size` bytes; raises `DeviceError` saying what is free."""
        ...

    def give(self, pointer: int) -> None:
        """Release what `take` gave; raises `DeviceError`."""
        ...


def make_allocator(tensorrt: TensorRT, memory: Memory, trouble: Trouble) -> Any:
    """An `IGpuAllocator` over `memory`; why it refused is kept in `trouble`.

    Called by the library from any thread. It calls `allocate` and `deallocate` in every
    version, deprecated though they are since 10.0; the others are there for their successors.
    """
    base = tensorrt.api.IGpuAllocator

    class Allocator(base):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            base.__init__(self)

        def allocate(self, size: int, alignment: int, flags: int) -> int:
            if size == 0:
                return 0
            # None would do by the documentation, but is reported as no address at all.
            try:
                return memory.take(size)
            except DeviceError as error:
                trouble.refused(error)
                return 0

        def deallocate(self, address: int) -> bool:
            try:
                if address:
                    memory.give(address)
            except DeviceError as error:
                trouble.refused(error)
                return False
            return True

        # The order of the last two differs between documentation and bindings.
        def allocate_async(self, size: int, alignment: int, flags: int, stream: int) -> int:
            return self.allocate(size, alignment, 0)

        def deallocate_async(self, address: int, stream: int) -> bool:
            return self.deallocate(address)

        # It goes on with what it has then.
        def reallocate(self, address: int, alignment: int, new_size: int) -> int:
            return 0

    return Allocator()

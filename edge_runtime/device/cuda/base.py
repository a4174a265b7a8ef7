"""What the GPU device needs of the CUDA driver, whichever library speaks to it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Driver(Protocol):
    """The primary context of one GPU. Pointers, streams and events are plain integers.

    Every method may be called from any thread: it makes the context current there first, once
    for each thread, so a thread works with one GPU. Whatever CUDA refuses is a `DeviceError`
    that names the call, CUDA's own name and text for it, and the fix; after a fault of the
    device it is a `DeviceLost`. Sizes are bytes. The primary context is the one that TensorRT
    and onnxruntime use as well: their pointers and streams and ours can be mixed.
    """

    library: str
    """`pycuda` or `cuda-bindings`."""
    index: int
    name: str
    capability: tuple[int, int]
    integrated: bool
    """Whether host and device share one memory, as on a Jetson."""
    total: int
    opening: int
    """Bytes that the context itself took, as far as anybody says."""

    def current(self) -> AbstractContextManager[None]:
        """Makes the context current in the calling thread, where it stays current."""
        ...

    def free(self) -> tuple[int, int]:
        """Bytes that are free on the device, and all that it has."""
        ...

    def alloc(self, size: int) -> int:
        """Device memory; the error names what was asked for and what is free."""
        ...

    def release(self, pointer: int) -> None: ...

    def alloc_host(self, size: int, mapped: bool) -> tuple[int, int]:
        """Page-locked memory: its address on the host, and on the device (0 unless `mapped`)."""
        ...

    def release_host(self, pointer: int) -> None: ...

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """Enqueue a copy, whichever side the two addresses lie on.

        Memory of the host should be page-locked: the call waits for any other.
        """
        ...

    def copy_rows(
        self, target: int, source: int, pitch: int, width: int, rows: int, stream: int
    ) -> None:
        """Enqueue a copy within the device: `width` bytes of each row; rows lie `pitch` apart."""
        ...

    def fill(self, pointer: int, size: int, stream: int) -> None:
        """Enqueue the writing of zeros."""
        ...

    def launch(self, graph: int, stream: int, name: str) -> None:
        """Enqueue a graph that was instantiated; `name` is what it is of."""
        ...

    def priorities(self) -> tuple[int, int]:
        """The priority of the least urgent stream, and of the most urgent: the lower number."""
        ...

    def stream(self, priority: int = 0, ordered: bool = False) -> int:
        """A stream; `priority` within `priorities()`.

        `ordered`, its work and that of CUDA's default stream wait for each other.
        """
        ...

    def release_stream(self, stream: int) -> None: ...

    def synchronize(self, stream: int) -> None:
        """Let the calling thread wait until all work of the stream is over.

        On an integrated GPU it sleeps meanwhile: the two share their power.
        """
        ...

    def event(self) -> int:
        """An event that takes the time."""
        ...

    def record(self, event: int, stream: int) -> None: ...

    def elapsed(self, earlier: int, later: int) -> float:
        """Seconds between two events; a `DeviceError` where the work has not passed both."""
        ...

    def release_event(self, event: int) -> None: ...

    def close(self) -> None:
        """Let go of the context. Whatever was made here must have been released."""
        ...

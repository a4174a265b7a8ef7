"""The device line: what a model chain needs of a CPU or a GPU, and no more.

Tensor names are the contract between exporter, plan and runner. Everything
above this line works with buffers and programs and knows no vendor's library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Kind = Literal["pinned", "mapped", "device"]
"""Page-locked memory of the host; the same, seen by the device too; memory of the device."""

Samples = NDArray[np.float32]


@dataclass(frozen=True)
class TensorSpec:
    """A program's input or output: `None` marks a dimension that a call decides."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]


class Buffer(Protocol):
    """A piece of memory of the device, allocated once, with a shape and a dtype."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def host(self) -> NDArray[Any]:
        """The same memory as an array; raises `DeviceError` for device-only memory."""
        ...

    @property
    def pointer(self) -> int:
        """The address of the first element, as the device sees it."""
        ...

    def view(self, shape: tuple[int, ...], offset: int = 0, dtype: Any = None) -> Buffer:
        """`shape` elements from this buffer's element `offset` on, of the same memory.

        Nothing is copied; with `dtype` the bytes there are read as of that type.
        """
        ...


class Mark(Protocol):
    """A place in a stream's work."""

    def since(self, earlier: Mark) -> float:
        """Seconds of device time between two places that the work has passed."""
        ...


@dataclass
class Counters:
    """What a stream did so far; only grows. `copied` is bytes by what they were."""

    copied: dict[str, int] = field(default_factory=dict)
    waits: int = 0

    def copy(self, kind: str, size: int) -> None:
        self.copied[kind] = self.copied.get(kind, 0) + size


class Stream(Protocol):
    """An ordered queue of work on the device, from one thread at a time.

    Calls bound to one stream share its scratch memory: none of them overlaps another.
    """

    @property
    def counters(self) -> Counters: ...

    def synchronize(self) -> None:
        """Let the host wait until all is over. Nothing else here waits."""
        ...

    def mark(self) -> Mark: ...


Call = Callable[[], None]
"""Enqueues its work on the stream that it was bound to."""


class Graph(Protocol):
    """Work captured once on a stream, replayed there many times."""

    def replay(self) -> None: ...

    def close(self) -> None: ...


class Program(Protocol):
    """A loaded plan. Its calls read and write the bound buffers, and allocate nothing."""

    @property
    def inputs(self) -> Mapping[str, TensorSpec]: ...

    @property
    def outputs(self) -> Mapping[str, TensorSpec]: ...

    def bind(self, bindings: Mapping[str, Buffer], stream: Stream) -> Call:
        """A call with its tensors and its stream bound for good; outputs may be left out.

        Raises `DeviceError` naming the tensor that is missing, unknown or of the wrong type.
        """
        ...


class Device(Protocol):
    """One processor that runs programs."""

    name: str
    suffix: str
    """How the files of its plans end: `.onnx` or `.plan`."""
    integrated: bool
    """Whether host and device share one memory, so that nothing need be copied between them."""
    batches: bool
    """Whether a large call on a batch costs less than its rows one by one."""
    rounds: bool
    """Whether shapes should be rounded up to few, so that what is made for one serves often."""
    chained: int
    """Decoder steps that run before the host looks at what they gave."""
    lanes: int

    def alloc(self, shape: tuple[int, ...], dtype: Any, kind: Kind = "device") -> Buffer:
        """Zeroed memory; raises `DeviceError` saying what was asked for and what is free."""
        ...

    def load(self, plan: Path) -> Program:
        """Raises `ModelMissing`, `ModelDamaged` or `DeviceError`."""
        ...

    def encoder(self, folder: Path) -> Program | None:
        """The encoder in kernels of the device's own, where it has them beside the tile."""
        ...

    def decoder(self, folder: Path) -> Program | None:
        """The whole decoder in kernels of the device's own, where it has them beside the tiles.

        Its tensors are those of the embedding and of all decoder tiles in `folder` together.
        """
        ...

    def stream(self) -> Stream: ...

    def copy(self, source: Buffer, target: Buffer, stream: Stream, kind: str) -> None:
        """Enqueue a copy of all of `source`; `kind` says under which name it is counted."""
        ...

    def copy_columns(
        self, buffer: Buffer, source: int, target: int, count: int, stream: Stream, kind: str
    ) -> None:
        """Enqueue in each row of a (rows, columns) buffer the copy of `count` of its elements.

        Those from column `source` on to column `target` on; the two must not overlap.
        """
        ...

    def stage(self, pieces: Sequence[Samples], target: Buffer, stream: Stream) -> None:
        """Enqueue the copy of float32 pieces, one after the other, into `target`; zeros after.

        Pieces in pinned memory must stay as they are until the stream is synchronised.
        """
        ...

    def capture(self, call: Call, stream: Stream) -> Graph:
        """What `call` enqueues on `stream`, as a graph; it is not run."""
        ...

    def close(self) -> None: ...

"""The device line: what a model chain needs of a CPU or a GPU, and no more.

Tensor names are the contract between exporter, plan and runner. Everything
above this line works with buffers and programs and knows no vendor's library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Kind = Literal["pinned", "mapped", "device"]


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

    def view(self, shape: tuple[int, ...], offset: int = 0) -> Buffer:
        """`shape` elements from element `offset` on, of the same memory: nothing is copied."""
        ...


class Stream(Protocol):
    """An ordered queue of work on the device."""

    def synchronize(self) -> None: ...


class Graph(Protocol):
    """Work captured once, replayed many times."""

    def replay(self, stream: Stream) -> None: ...


class Program(Protocol):
    """A loaded plan. Its calls read and write the bound buffers, and allocate nothing."""

    @property
    def inputs(self) -> Mapping[str, TensorSpec]: ...

    @property
    def outputs(self) -> Mapping[str, TensorSpec]: ...

    def bind(self, bindings: Mapping[str, Buffer]) -> Callable[[Stream], None]:
        """A call with its tensors bound for good; outputs left out are not delivered.

        Raises `DeviceError` naming the tensor that is missing, unknown or of the wrong type.
        """
        ...

    def run(self, bindings: Mapping[str, Buffer], stream: Stream) -> None:
        """Bind and call once."""
        ...


class Device(Protocol):
    """One processor that runs programs."""

    name: str
    integrated: bool
    batches: bool
    """Whether a large call on a batch costs less than its rows one by one."""
    lanes: int

    def alloc(self, shape: tuple[int, ...], dtype: Any, kind: Kind = "device") -> Buffer:
        """Zeroed memory; raises `DeviceError` saying what was asked for and what is free."""
        ...

    def load(self, plan: Path) -> Program:
        """Raises `ModelMissing`, `ModelDamaged` or `DeviceError`."""
        ...

    def stream(self) -> Stream: ...

    def capture(self, call: Callable[[Stream], None], stream: Stream) -> Graph: ...

    def close(self) -> None: ...

"""The encoder as one program of our own kernels, cross-attention's keys and values included."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.device.base import Buffer, Call, Stream, TensorSpec
from edge_runtime.device.cuda.stream import CudaStream
from edge_runtime.device.encode.compile import KERNELS, compiled
from edge_runtime.device.encode.launches import EncodeLaunches, inner_columns
from edge_runtime.device.encode.spec import EncodeSpec, expected
from edge_runtime.device.kernels import Launches, archive, packed, upload
from edge_runtime.device.kernels.bindings import check
from edge_runtime.errors import DeviceError, ModelDamaged

if TYPE_CHECKING:
    from edge_runtime.device.cuda.device import CudaDevice


class EncodeProgram:
    """Takes `audio` (B,N) and `length` (B); gives memory (B,H,T,D), its length, as the tile does.

    Float16 alone. It is five kernels a layer and four more.
    """

    def __init__(self, device: CudaDevice, path: Path) -> None:
        """Raises `ModelMissing`, `ModelDamaged`, `MissingExtra` or `DeviceError`."""
        self._device = device
        self.spec, weights = archive.load(path, EncodeSpec)
        _fits(path, self.spec)
        archive.check(path, weights, expected(self.spec))
        _narrow(path, weights)
        code = compiled(self.spec, device.driver.capability)
        self._kernels = device.module(code, KERNELS).kernels
        self._weights = upload(
            device,
            {
                name: packed(in_octets(each)) if each.ndim == 2 else each
                for name, each in weights.items()
            },
        )
        self.inputs, self.outputs = _tensors(self.spec)

    def bind(self, bindings: Mapping[str, Buffer], stream: Stream) -> Call:
        """See `Program`; the memory's tensors must lie evenly apart, all keys before all values."""
        if not isinstance(stream, CudaStream):
            raise DeviceError(f"a {type(stream).__name__} is not a stream of a GPU")
        check("encode", {**self.inputs, **self.outputs}, bindings)
        places = [bindings[name].pointer for name in memories(self.spec)]
        apart = {after - before for before, after in pairwise(places)}
        if len(apart) > 1:
            raise DeviceError("encode: keys and values of the layers do not lie evenly apart")
        work, launches = EncodeLaunches(self, bindings, stream).made()
        kept = (self, dict(bindings), work)
        return Launches(self._device, self._kernels, launches, stream, kept, "the encoder")

    def weight(self, name: str) -> int:
        return self._weights[name].pointer


def memories(spec: EncodeSpec) -> list[str]:
    """The names of cross-attention's tensors, as they follow each other."""
    return [f"memory_{kind}_{layer}" for kind in "kv" for layer in range(spec.memories)]


def in_octets(matrix: NDArray[Any]) -> NDArray[Any]:
    """The rows of every 32 in the order in which threads read eight neighbours of a line.

    Of the four threads that share a line in mma, thread t has the values 8 t to 8 t + 7 of it:
    the first four make the first 16 deep product, the others the second (see encode.cu).
    """
    depth, columns = matrix.shape
    # Axes: 32 rows, thread, product, lower or upper half of its depth, neighbour.
    parts = matrix.reshape(depth // 32, 4, 2, 2, 2, columns)
    return parts.transpose(0, 2, 3, 1, 4, 5).reshape(depth, columns)


def _tensors(s: EncodeSpec) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
    integer, half = np.dtype(np.int64), np.dtype(np.float16)
    inputs = {
        "audio": TensorSpec("audio", np.dtype(np.float32), (None, None)),
        "length": TensorSpec("length", integer, (None,)),
    }
    shape = (None, s.heads, None, s.head_dim)
    outputs = {name: TensorSpec(name, half, shape) for name in memories(s)}
    outputs["memory_length"] = TensorSpec("memory_length", integer, (None,))
    return inputs, outputs


def _narrow(path: Path, weights: archive.Arrays) -> None:
    """Raises `ModelDamaged` where matrices are not in float16, or others not in float32."""
    for name, array in weights.items():
        wanted = np.float16 if array.ndim == 2 else np.float32
        if array.dtype != wanted:
            raise ModelDamaged(
                f"{path}: {name} is {array.dtype}", "Run: edge-runtime build MODEL --again"
            )


def _fits(path: Path, s: EncodeSpec) -> None:
    whole = s.heads * s.head_dim
    fits = (
        s.width % 32 == 0 and s.channels[0] == s.channels[2] == s.width
        and s.channels[1] % 64 == 0 and s.inner % inner_columns(s.inner) == 0
        and s.head_dim % 8 == 0 and s.rotary % 4 == 0 and s.rotary <= s.head_dim
        and s.heads % 4 == 0 and whole % 32 == 0 and s.strides[0] % 8 == 0
        and s.memories > 1
    )  # fmt: skip
    if not fits:
        raise DeviceError(f"{path.name}: no kernels for an encoder of these dimensions: {s}")

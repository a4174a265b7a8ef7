"""Whisper's weights out of CTranslate2's binary files, read where they lie on the disk."""

from __future__ import annotations

import math
import mmap
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.weights.base import Weights, damaged
from edge_runtime.errors import ModelMissing

_VERSION = 6
_DTYPES = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2"}
_MOST = 1 << 16
"""More tensors than any model has: a number beyond is damage."""

_NORM = {"layer_norm/gamma": "weight", "layer_norm/beta": "bias"}
_LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/(self_attention|attention|ffn)/(.+)")
_WHOLE = {
    "encoder/position_encodings/encodings": "model.encoder.embed_positions.weight",
    "encoder/layer_norm/gamma": "model.encoder.layer_norm.weight",
    "encoder/layer_norm/beta": "model.encoder.layer_norm.bias",
    "decoder/position_encodings/encodings": "model.decoder.embed_positions.weight",
    "decoder/embeddings/weight": "model.decoder.embed_tokens.weight",
    "decoder/layer_norm/gamma": "model.decoder.layer_norm.weight",
    "decoder/layer_norm/beta": "model.decoder.layer_norm.bias",
} | {
    f"encoder/conv{number}/{kind}": f"model.encoder.conv{number}.{kind}"
    for number in (1, 2)
    for kind in ("weight", "bias")
}
# Modules of a layer, and which projections one packed matrix holds, in order.
_MODULES = {"self_attention": "self_attn", "attention": "encoder_attn"}
_PACKED = {
    ("self_attention", 0): "qkv",
    ("self_attention", 1): ("out",),
    ("attention", 0): "q",
    ("attention", 1): "kv",
    ("attention", 2): ("out",),
}


def read(paths: Sequence[Path]) -> Weights:
    """All weights of the file that `paths` are in order, under Hugging Face's names.

    Linear layers are [out, in], convolutions [out, in, kernel], all float32.
    Raises `ModelMissing` for a file that is not there, `ModelDamaged` naming the place or the
    tensor for one that does not read; integers with scales are not read.
    """
    file = _File(paths)
    weights: Weights = {}
    for name, tensor in file.tensors():
        weights |= _named(name, tensor, file.path)
    return weights


class _File:
    """The bytes of one file, whole or in parts, mapped into memory and read in order."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.path = paths[0]
        self._parts: list[memoryview] = []
        for path in paths:
            try:
                with path.open("rb") as file:
                    self._parts.append(
                        memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                    )
            except FileNotFoundError:
                raise ModelMissing(
                    f"{path} does not exist", "Run: edge-runtime pull MODEL"
                ) from None
            except ValueError:
                raise damaged(path, "is empty") from None
        self._size = sum(len(part) for part in self._parts)
        self._at = 0

    def tensors(self) -> list[tuple[str, NDArray[np.float32]]]:
        """(name, float32 copy) of each, and of those that are another by a second name."""
        version = self._number("<I")
        if version != _VERSION:
            raise damaged(self.path, f"is of version {version}, not {_VERSION}")
        self._string()  # the model's kind
        self._number("<I")  # the kind's revision
        count = self._number("<I")
        if count > _MOST:
            raise damaged(self.path, f"says that it holds {count} tensors")
        found = dict(self._tensor() for _ in range(count))
        for _ in range(self._number("<I") if self._at < self._size else 0):
            alias, name = self._string(), self._string()
            if name not in found:
                raise damaged(self.path, f"{alias} stands for {name}, which is not there")
            found[alias] = found[name]
        if self._at != self._size:
            raise damaged(self.path, f"goes on after its end for {self._size - self._at} bytes")
        return list(found.items())

    def _tensor(self) -> tuple[str, NDArray[np.float32]]:
        name = self._string()
        shape = tuple(self._number("<I") for _ in range(self._number("<B")))
        kind = self._number("<B")
        size = self._number("<I")
        if kind not in _DTYPES:
            raise damaged(self.path, f"{name} is of the unknown type {kind}")
        dtype: np.dtype[Any] = np.dtype(_DTYPES[kind])
        if math.prod(shape) * dtype.itemsize != size:
            raise damaged(self.path, f"{name}: {size} bytes are not {dtype} of {shape}")
        data = self._bytes(size, name)
        return name, np.frombuffer(data, dtype).reshape(shape).astype(np.float32)

    def _number(self, form: str) -> int:
        (value,) = struct.unpack(form, self._bytes(struct.calcsize(form), "a number"))
        return int(value)

    def _string(self) -> str:
        raw = bytes(self._bytes(self._number("<H"), "a name"))
        try:
            return raw.removesuffix(b"\0").decode()
        except UnicodeDecodeError:
            raise damaged(self.path, f"has no name before byte {self._at}") from None

    def _bytes(self, size: int, what: str) -> memoryview | bytes:
        """The next `size` bytes: a view, but for what lies across two parts."""
        if self._at + size > self._size:
            raise damaged(self.path, f"is cut off at byte {self._size}, in {what}")
        first, pieces = self._at, []
        self._at += size
        for part in self._parts:
            if first < len(part) and size:
                pieces.append(part[first : first + size])
                size -= len(pieces[-1])
            first = max(0, first - len(part))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _named(name: str, tensor: NDArray[np.float32], path: Path) -> Weights:
    """A tensor under the names that others use; packed projections one by one."""
    if name in _WHOLE:
        return {_WHOLE[name]: tensor}
    found = _LAYER.fullmatch(name)
    if found is not None:
        return _of_layer(found, tensor, path)
    if tensor.ndim == 0 or name.startswith("decoder/projection/"):
        return {}  # settings, and the head, which is the embedding table
    raise damaged(path, f"holds an unknown tensor {name}")


def _of_layer(found: re.Match[str], tensor: NDArray[np.float32], path: Path) -> Weights:
    half, layer, module, rest = found.groups()
    stem = f"model.{half}.layers.{layer}"
    if rest in _NORM:
        norm = f"{_MODULES[module]}_layer_norm" if module in _MODULES else "final_layer_norm"
        return {f"{stem}.{norm}.{_NORM[rest]}": tensor}
    linear = re.fullmatch(r"linear_(\d)/(weight|bias)", rest)
    if linear is None:
        if tensor.ndim == 0:
            return {}
        raise damaged(path, f"holds an unknown tensor {found[0]}")
    number, kind = int(linear[1]), linear[2]
    if module == "ffn":
        return {f"{stem}.fc{number + 1}.{kind}": tensor}
    parts = _PACKED.get((module, number))
    if parts is None or tensor.shape[0] % len(parts):
        raise damaged(path, f"{found[0]} is {tensor.shape}")
    named = zip(parts, np.split(tensor, len(parts)), strict=True)
    # Keys have no bias of their own: the packed one holds zeros for them.
    return {
        f"{stem}.{_MODULES[module]}.{part}_proj.{kind}": each
        for part, each in named
        if (part, kind) != ("k", "bias")
    }

"""The encoder's kernels in their order, with what each is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from edge_runtime.device.base import Buffer
from edge_runtime.device.cuda.stream import CudaStream
from edge_runtime.device.kernels import Launch, Number

if TYPE_CHECKING:
    from edge_runtime.device.encode.program import EncodeProgram

LINES, PARTS, _COLUMNS, _THREADS, _SOME, _SPLIT = 32, 2, 32, 256, 16, 2
"""As in encode.cu."""


def inner_columns(inner: int) -> int:
    """Columns of the feed-forward layer that a block takes."""
    return 64 if inner % 96 else 96


def remembered(heads: int, head_dim: int) -> int:
    """Heads of cross-attention that a block takes."""
    return heads // 2 if heads * head_dim > 320 else heads


class EncodeLaunches:
    """The launches of one call, and the memory that they work in."""

    def __init__(
        self, program: EncodeProgram, bindings: Mapping[str, Buffer], stream: CudaStream
    ) -> None:
        spec = self._spec = program.spec
        self._program = program
        self._rows, self._samples = bindings["audio"].shape
        self._frames = spec.frames(self._samples)
        self._at = {name: buffer.pointer for name, buffer in bindings.items()}
        whole, (first, second, last) = spec.heads * spec.head_dim, self._frames
        self._parts = -(-first // LINES) * PARTS
        bytes_of = {
            "moments": self._parts * 3 * 4,
            "heard": first * spec.channels[0] * 2,
            "listened": second * spec.channels[1] * 2,
            "x": last * spec.width * 4,
            **dict.fromkeys(("q", "k", "v", "mixed"), last * whole * 2),
            "inner": last * spec.inner * 2,
        }
        places, end = {}, 0
        for name, size in bytes_of.items():
            places[name] = end
            end += -(-self._rows * size // 256) * 256
        self._work = stream.scratch(end)
        for name, place in places.items():
            self._at[name] = self._work.pointer + place
        self._made: list[Launch] = []

    def made(self) -> tuple[Buffer, list[Launch]]:
        """The working memory, and the launches that use it."""
        spec, (first, second, last) = self._spec, self._frames
        frames = Number(last)
        wide = spec.channels[0] // PARTS // 16 * 32
        self._add(
            "hear", PARTS, first, wide, "audio", Number(self._samples), "length", "conv1", "heard",
            Number(first), "moments",
        )  # fmt: skip
        self._add(
            "listen", spec.channels[1] // (2 * _COLUMNS), -(-second // 2), _THREADS, "heard",
            Number(first), "moments", Number(self._parts), "conv2", "conv2_sums", "conv2_bias",
            "listened", Number(second),
        )  # fmt: skip
        out = spec.width // _COLUMNS
        self._add(
            "gather", out, last, _THREADS, "listened", Number(second), "conv3", "conv3_bias", "x",
            frames,
        )  # fmt: skip
        pieces = 2 * spec.head_dim // 16
        columns = inner_columns(spec.inner)
        for layer in range(spec.layers):
            name = f"{layer}."
            self._add(
                "project", 3 * spec.heads // 2, last, pieces * _SPLIT * 32, "x",
                name + "mix_norm", name + "qkv", "q", "k", "v", frames,
            )  # fmt: skip
            self._made.append(
                Launch(
                    "attend", (spec.heads, -(-last // _SOME), self._rows), _THREADS,
                    self._arguments("q", "k", "v", "length", "mixed", frames),
                )
            )  # fmt: skip
            self._add("mix_out", out, last, _THREADS, "mixed", name + "mix_out", "x", frames)
            self._add(
                "mlp_in", spec.inner // columns, last, columns // 16 * _SPLIT * 32, "x",
                name + "mlp_norm", name + "fc1", name + "fc1_bias", "inner", frames,
            )  # fmt: skip
            self._add(
                "mlp_out", out, last, _THREADS, "inner", name + "fc2", name + "fc2_bias", "x",
                frames,
            )  # fmt: skip
        heads = remembered(spec.heads, spec.head_dim)
        self._add(
            "remember", 2 * spec.memories * spec.heads // heads, last,
            heads * spec.head_dim // 16 * 32, "x", "norm", "memory", "length", "memory_k_0",
            self._apart(), "memory_length", frames,
        )  # fmt: skip
        return self._work, self._made

    def _apart(self) -> int:
        """Elements from one layer's keys or values to the next ones; see `EncodeProgram.bind`."""
        return (self._at["memory_k_1"] - self._at["memory_k_0"]) // np.dtype(np.float16).itemsize

    def _add(self, kernel: str, across: int, frames: int, threads: int, *given: str | int) -> None:
        """A kernel whose blocks take `LINES` of so many frames each."""
        grid = (across, -(-frames // LINES), self._rows)
        self._made.append(Launch(kernel, grid, threads, self._arguments(*given)))

    def _arguments(self, *given: str | int) -> list[int]:
        return [self._place(each) if isinstance(each, str) else each for each in given]

    def _place(self, name: str) -> int:
        found = self._at.get(name)
        return self._program.weight(name) if found is None else found

"""The kernels of one decoder pass in their order, with what each is given."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import TYPE_CHECKING

from edge_runtime.device.base import Buffer
from edge_runtime.device.cuda.stream import CudaStream
from edge_runtime.device.kernels import Launch, Number
from edge_runtime.errors import DeviceError

if TYPE_CHECKING:
    from edge_runtime.device.step.program import StepProgram

_COLUMNS, _THREADS, _CHUNK, LOGITS, _CHUNKS, _MANY = 16, 256, 64, 128, 32, 8
"""As in step.cu and many.cuh."""


class StepLaunches:
    """The kernels of one step in their order, with what each is given."""

    def __init__(
        self, program: StepProgram, bindings: Mapping[str, Buffer], stream: CudaStream
    ) -> None:
        self._program = program
        self._at = {name: buffer.pointer for name, buffer in bindings.items()}
        spec = self._spec = program.spec
        self._rows, self._queries = rows, queries = bindings["tokens"].shape
        self._frames = bindings["align"].shape[2]
        self._chunks = -(-self._frames // _CHUNK)
        self._parts = spec.vocabulary // LOGITS
        self._all = spec.heads * spec.head_dim
        # Lines of a block of many.cuh.
        self._some = 16 if program.dtype.itemsize == 2 else 8
        self._lines = lines = rows * queries
        if (queries > 1 and queries % _MANY) or self._chunks > _CHUNKS:
            raise DeviceError(
                f"step: no kernels for {queries} queries and {self._frames} frames",
                f"Round queries up to a multiple of {_MANY}.",
            )
        aligned = len(spec.alignment_heads)
        sizes = {
            "x": spec.width,
            "qkv": 3 * self._all,
            "mixed": self._all,
            "query": self._all,
            "inner": spec.inner * program.dtype.itemsize // 4,
            "pieces": spec.heads * self._chunks * (spec.head_dim + 2) if queries == 1 else 0,
            "scores": aligned * self._frames,
            "shares": 2 * aligned,
            "bests": 4 * self._parts,
        }
        places, end = {}, 0
        for name, size in sizes.items():
            places[name] = end
            end += -(-lines * size // 64) * 64
        self._work = stream.scratch(4 * end)
        for name, place in places.items():
            self._at[name] = self._work.pointer + 4 * place
        self._made: list[Launch] = []

    def made(self) -> tuple[Buffer, list[Launch]]:
        """The working memory, and the launches that use it."""
        self._add("embed", (self._lines, 1, 1), _THREADS, "tokens", "table", "x")
        for layer in range(self._spec.layers):
            self._layer(layer)
        self._logits()
        self._add(
            "finish", (self._lines, 1, 1), _THREADS, "bests", Number(self._parts), "scores",
            "shares", Number(self._frames), Number(self._queries), "position", "next_token",
            "logprob", "margin", "frame", "align", "position_next",
        )  # fmt: skip
        return self._work, self._made

    def _logits(self) -> None:
        norm = self._weight("norm")
        if self._queries == 1:
            grid = (self._parts, self._lines, 1)
            self._add("logits", grid, _THREADS, "x", norm, "table", "bests")
            return
        grid = (self._parts, -(-self._lines // (4 * _MANY)), 1)
        lines = Number(self._lines)
        self._add("logits_many", grid, _THREADS, "x", norm, "table", lines, "bests")

    def _layer(self, layer: int) -> None:
        whole, out = self._all, self._spec.width // _COLUMNS

        def w(name: str) -> int:
            return self._weight(f"{layer}.{name}")

        self._lined(
            "normed", 3 * whole // _COLUMNS, "x", w("self_norm"), w("qkv"), "qkv", Number(3 * whole)
        )
        self._self_attention(layer)
        self._lined("mix_out", out, "mixed", w("self_out"), "x")
        self._lined(
            "normed", whole // _COLUMNS, "x", w("cross_norm"), w("query"), "query", Number(whole)
        )
        self._cross_attention(layer, w("cross_out"))
        self._lined(
            "gated", self._spec.inner // _COLUMNS, "x", w("mlp_norm"), w("fc1"), w("fc1_bias"),
            "inner",
        )  # fmt: skip
        self._lined("mlp_out", out, "inner", w("fc2"), w("fc2_bias"), "x")

    def _self_attention(self, layer: int) -> None:
        spec, rows, queries = self._spec, self._rows, self._queries
        past, new = (f"past_k_{layer}", f"past_v_{layer}"), (f"new_k_{layer}", f"new_v_{layer}")
        if queries == 1:
            grid = (spec.heads, rows, 1)
            self._add("self_mix", grid, spec.past, "qkv", "position", *past, *new, "mixed")
            return
        self._add(
            "self_many", (spec.heads, -(-queries // self._some), rows), _THREADS, "qkv", "position",
            Number(queries), *past, *new, "mixed",
        )  # fmt: skip

    def _cross_attention(self, layer: int, matrix: int) -> None:
        spec, out = self._spec, self._spec.width // _COLUMNS
        slots = Number(ctypes.c_int(spec.slots(layer) & 0xFFFFFFFF).value)
        memory, frames = (f"memory_k_{layer}", f"memory_v_{layer}"), Number(self._frames)
        if self._queries == 1:
            self._add(
                "cross", (spec.heads, self._chunks, self._rows), 2 * _CHUNK, "query",
                "memory_length", *memory, frames, slots, "pieces", "scores",
            )  # fmt: skip
            self._add(
                "cross_out", (out, self._rows, 1), _THREADS, "pieces", Number(self._chunks), slots,
                matrix, "x", "shares",
            )  # fmt: skip
            return
        self._add(
            "cross_many", (spec.heads, -(-self._queries // self._some), self._rows), _THREADS,
            "query", "memory_length", Number(self._queries), *memory, frames, slots, "mixed",
            "scores", "shares",
        )  # fmt: skip
        self._lined("mix_out", out, "mixed", matrix, "x")

    def _lined(self, kernel: str, blocks: int, *given: str | int) -> None:
        """A kernel that there is for one line a block and for many."""
        if self._queries == 1:
            self._add(kernel, (blocks, self._lines, 1), _THREADS, *given)
        else:
            self._add(f"{kernel}_many", (blocks, self._lines // _MANY, 1), _THREADS, *given)

    def _weight(self, name: str) -> int:
        return self._program.weight(name)

    def _add(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        threads: int,
        *given: str | int,
    ) -> None:
        arguments = [self._at[each] if isinstance(each, str) else each for each in given]
        self._made.append(Launch(kernel, grid, threads, arguments))

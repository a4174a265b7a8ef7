"""The tile chain of an encoder–decoder model on a device, and the buffers of one lane."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.decode.shape import load_shape
from edge_runtime.device.base import Buffer, Device, Program, Stream

Call = Callable[[Stream], None]


class Chain:
    """The loaded programs and the embedding table: one for each model and device."""

    def __init__(self, device: Device, graphs: Path) -> None:
        self.device = device
        self.shape = shape = load_shape(graphs)
        self.encoder = device.load(graphs / "encoder.onnx")
        self.embedding = device.load(graphs / "embedding.onnx")
        self.tiles: list[Program] = []
        first = 0
        for count in shape.decoder_tiles:
            self.tiles.append(device.load(graphs / f"layers_{first}_{first + count}.onnx"))
            first += count
        table = np.load(graphs / "table.npy")
        self.dtype = table.dtype
        self.table = device.alloc(table.shape, table.dtype)
        self.table.host[...] = table


@dataclass(frozen=True)
class Size:
    """How much a lane can hold: rows of a batch, samples of a row."""

    rows: int
    samples: int


class Lane:
    """Preallocated buffers and calls for one update batch at a time.

    Self-attention caches exist twice (`past` and `new` change places at every
    pass), so that a pass reads one and writes the other.
    """

    def __init__(self, chain: Chain, size: Size) -> None:
        self.chain = chain
        self.size = size
        self.stream = chain.device.stream()
        shape, alloc = chain.shape, chain.device.alloc
        rows, queries, frames = size.rows, shape.past, shape.frames(size.samples)
        heads, padded, layers = shape.heads, shape.padded_head_dim, shape.decoder_layers
        self.audio = alloc((rows, size.samples), np.float32, "pinned")
        self.length = alloc((rows,), np.int64, "pinned")
        self.memory_length = alloc((rows,), np.int64)
        self.memory = alloc((2 * layers, rows * heads * frames * padded), chain.dtype)
        self.caches = [
            alloc((2 * layers, rows * heads * shape.past * padded), chain.dtype) for _ in range(2)
        ]
        self.tokens = alloc((rows * queries,), np.int64, "pinned")
        self.positions = [alloc((rows,), np.int64, "pinned") for _ in range(2)]
        self.hidden = [alloc((rows * queries * shape.width,), chain.dtype) for _ in range(2)]
        self.aligns = [alloc((rows * queries * frames,), np.float32) for _ in range(2)]
        self.results: dict[str, Buffer] = {
            "next_token": alloc((rows * queries,), np.int64, "pinned"),
            "logprob": alloc((rows * queries,), np.float32, "pinned"),
            "margin": alloc((rows * queries,), np.float32, "pinned"),
            "frame": alloc((rows * queries,), np.int64, "pinned"),
        }

    def encode(self, rows: int, samples: int) -> None:
        """Encode the first `samples` of the first `rows` rows of `audio`, true lengths in `length`.

        Cross-attention keys and values stay in the lane's memory for `decoder_pass`. Where a
        batch saves nothing, rows go one by one: the scratch memory is that of one row.
        """
        step = rows if self.chain.device.batches else 1
        for first in range(0, rows, step):
            self._encode(first, step, samples)

    def _encode(self, first: int, rows: int, samples: int) -> None:
        shape = self.chain.shape
        frames = shape.frames(samples)
        bindings: dict[str, Buffer] = {
            "audio": self.audio.view((rows, samples), first * samples),
            "length": self.length.view((rows,), first),
            "memory_length": self.memory_length.view((rows,), first),
            **self._memory(rows, frames, range(shape.decoder_layers), first),
        }
        self.chain.encoder.run(bindings, self.stream)

    def decoder_pass(self, rows: int, queries: int, frames: int, turn: int) -> Call:
        """The chain over (rows, queries) tokens, reading cache `turn` and writing the other."""
        bound = [self._bind_embedding(rows, queries)]
        first = 0
        chain = self.chain
        for number, count in enumerate(chain.shape.decoder_tiles):
            indices = range(first, first + count)
            bound.append(self._bind_tile(number, indices, rows, queries, frames, turn))
            first += count

        def call(stream: Stream) -> None:
            for each in bound:
                each(stream)

        return call

    def _bind_embedding(self, rows: int, queries: int) -> Call:
        bindings: dict[str, Buffer] = {
            "tokens": self.tokens.view((rows, queries)),
            "table": self.chain.table,
            "hidden": self.hidden[0].view((rows, queries, self.chain.shape.width)),
        }
        return self.chain.embedding.bind(bindings)

    def _bind_tile(
        self, number: int, indices: range, rows: int, queries: int, frames: int, turn: int
    ) -> Call:
        program = self.chain.tiles[number]
        here, there = number % 2, 1 - number % 2
        hidden = (rows, queries, self.chain.shape.width)
        align = (rows, queries, frames)
        offered: dict[str, Buffer] = {
            "hidden": self.hidden[here].view(hidden),
            "hidden_next": self.hidden[there].view(hidden),
            "align_past": self.aligns[here].view(align),
            "align_next": self.aligns[there].view(align),
            "align": self.aligns[there].view(align),
            "position": self.positions[turn].view((rows,)),
            "position_next": self.positions[1 - turn].view((rows,)),
            "memory_length": self.memory_length.view((rows,)),
            "table": self.chain.table,
            **self._memory(rows, frames, indices),
            **self._cache("past", turn, rows, indices),
            **self._cache("new", 1 - turn, rows, indices),
            **{name: buffer.view((rows, queries)) for name, buffer in self.results.items()},
        }
        if number + 1 < len(self.chain.tiles):
            del offered["position_next"]
        return program.bind(
            {
                name: buffer
                for name, buffer in offered.items()
                if name in program.inputs or name in program.outputs
            }
        )

    def align(self, rows: int, queries: int, frames: int) -> Any:
        """The (rows, queries, frames) attention of the last pass."""
        last = 1 - (len(self.chain.tiles) - 1) % 2
        return self.aligns[last].view((rows, queries, frames)).host

    def _memory(self, rows: int, frames: int, indices: range, first: int = 0) -> dict[str, Buffer]:
        shape = self.chain.shape
        each = (rows, shape.heads, frames, shape.padded_head_dim)
        return self._layered("memory", self.memory, each, indices, first)

    def _cache(self, name: str, turn: int, rows: int, indices: range) -> dict[str, Buffer]:
        shape = self.chain.shape
        return self._layered(
            name, self.caches[turn], (rows, shape.heads, shape.past, shape.padded_head_dim), indices
        )

    def _layered(
        self, name: str, buffer: Buffer, each: tuple[int, ...], indices: range, first: int = 0
    ) -> dict[str, Buffer]:
        """Every layer's keys and values, from row `first` on, as a view of one (2·layers, …)."""
        layers, stride = self.chain.shape.decoder_layers, buffer.shape[1]
        row = first * math.prod(each[1:])
        return {
            f"{name}_{kind}_{index}": buffer.view(each, (half * layers + index) * stride + row)
            for half, kind in enumerate("kv")
            for index in indices
        }

"""One lane of a chain: its buffers, its stream, and what is bound to them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode import trial
from edge_runtime.decode.graphs import Graphs
from edge_runtime.decode.mirror import Mirror
from edge_runtime.decode.passes import Pass, Tiled
from edge_runtime.decode.places import aligned
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.device.base import Buffer, Call, Program, Samples

KEPT = 128
"""Graphs of one lane for each number of rows: more than the warm-up makes."""

MOST = 16
"""Single tokens of the longest chain."""

LONG = 32
"""Tokens of the longest check that is not the first of an update."""

_ANSWERS = {"next_token": np.int64, "frame": np.int64, "logprob": np.float32, "margin": np.float32}


Answers = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class _Window:
    """The host's side of a pass: what goes in, for each turn where, what came out."""

    tokens: NDArray[np.int64]
    positions: list[NDArray[np.int64]]
    answers: Answers


class Lane:
    """Preallocated buffers for one batch of updates at a time, from one thread at a time.

    Self-attention caches exist twice and change places at every step: one is read,
    the other written; or once, where tiles append in place. Everything between audio and
    answers stays on the device; the methods enqueue, and only `stream.synchronize` waits.
    """

    def __init__(self, chain: Chain, size: Size) -> None:
        self.chain = chain
        self.size = size
        self.buckets = chain.buckets(size)
        self.stream = chain.device.stream()
        self._kept = KEPT * max(1, len(self.buckets.row_sizes))
        self.graphs = Graphs(chain.device, self.stream, self._kept)
        self.tiled = Tiled()
        self.padding = {"samples": (0, 0), "queries": (0, 0)}
        """What calls were made for so far, by kind: real ones, and more for nothing."""
        shape, device = chain.shape, chain.device
        rows, queries, frames = size.rows, shape.past, self._frames()
        each = shape.heads * shape.padded_head_dim
        layers = 2 * shape.decoder_layers
        itemsize = chain.dtype.itemsize
        self.audio = device.alloc((size.whole,), np.float32)
        self.length = Mirror(device, (rows,), np.int64, "length")
        self.memory_length = device.alloc((rows,), np.int64)
        self.memory = device.alloc((layers, aligned(each * frames, itemsize)), chain.dtype)
        kept = [
            device.alloc((layers, aligned(rows * each * shape.past, itemsize)), chain.dtype)
            for _ in range(1 if shape.fused else 2)
        ]
        self.caches = [kept[0], kept[-1]]
        self.hidden = [device.alloc((rows * queries * shape.width,), chain.dtype) for _ in "ab"]
        self.shares = [device.alloc((queries * frames,), np.float32) for _ in "ab"]
        self._align = Mirror(device, (queries * frames,), np.float32, "align")
        # Positions for both turns, then the tokens: one copy sends them.
        self._tokens_at = 2 * aligned(rows * 8)
        self._fed = Mirror(device, (self._tokens_at + rows * queries * 8,), np.uint8, "tokens")
        self._windows: dict[Pass, _Window] = {}
        self.chains = _chains(device.chained)
        """How many single tokens may be decoded between two looks of the host, ascending."""
        answers = max(_slot(rows * queries), max(self.chains) * _slot(rows))
        self._answers = Mirror(device, (answers,), np.uint8, "results")
        if device.rounds:
            self._reserve()

    def _frames(self) -> int:
        """Encoder frames of the largest batch, all rows together."""
        frames = self.chain.shape.frames
        shapes = self.batches() or [(self.size.rows, self.size.samples)]
        return max(rows * frames(samples) for rows, samples in shapes)

    def batches(self) -> list[tuple[int, int]]:
        """The largest shapes, (rows, samples): for each number of rows the longest that fit.

        None where shapes are not rounded up.
        """
        sizes = self.buckets.row_sizes
        fitting = [
            (rows, [each for each in self.buckets.sample_sizes if self.size.fits(rows, each)])
            for rows in sizes
        ]
        return [(rows, max(samples)) for rows, samples in fitting if samples]

    def _reserve(self) -> None:
        """Bind the largest calls first, and drop them: no other needs more memory to work in."""
        queries = self.buckets.queries(self.chain.shape.widest)
        calls: list[Call] = []
        shapes = self.batches()
        for rows, samples in shapes:
            frames = self.chain.shape.frames(samples)
            # A plan's kernels may be compiled for each shape: of these only those that need most.
            tiled_too = (rows, samples) in (shapes[0], shapes[-1]) or not self.chain.has_own
            for tiled in (*([True] if tiled_too else []), *([False] if self.chain.has_own else [])):
                calls += [
                    self._encoder(0, rows if self.chain.device.batches else 1, samples, tiled),
                    self._passes(Pass(rows, queries, frames, tiled=tiled)),
                ]
        # To bind is to run once: that must be over before what it runs in is dropped.
        self.stream.synchronize()
        calls.clear()

    def filled(self, kind: str, made: int, real: int) -> None:
        """Count a call that was made for so many "samples" or "queries", `real` ones of them."""
        before, padding = self.padding[kind]
        # In one piece: other threads read it.
        self.padding[kind] = (before + real, padding + made - real)

    # -- the encoder

    def stage(self, row: int, pieces: tuple[Samples, ...] | list[Samples], samples: int) -> None:
        """Put a row's audio, in pieces, into the staging rows of `samples`; zeros behind it."""
        target = self.audio.view((samples,), row * samples)
        self.chain.device.stage(pieces, target, self.stream)

    def encode(self, rows: int, samples: int, tiled: bool = False) -> None:
        """Encode the first rows of `samples`, their true lengths in `length.host`.

        Cross-attention keys and values stay in the lane's memory. Where a batch saves
        nothing, rows go one by one: the scratch memory is that of one row. `tiled` as in `Pass`.
        """
        step = rows if self.chain.device.batches else 1
        for first in range(0, rows, step):
            key = ("encode", first, step, samples, tiled)
            self.graphs.get(key, partial(self._encoder, first, step, samples, tiled)).replay()

    def _encoder(self, first: int, rows: int, samples: int, tiled: bool) -> Call:
        frames = self.chain.shape.frames(samples)
        bindings: dict[str, Buffer] = {
            "audio": self.audio.view((rows, samples), first * samples),
            "length": self.length.there.view((rows,), first),
            "memory_length": self.memory_length.view((rows,), first),
            **self._memory(rows, frames, first),
        }
        own = self.chain.own_encoder
        if own is None or tiled or samples in self.tiled.samples:
            own = self.chain.encoder
        call = self._bind(own, bindings)

        def encode() -> None:
            self.length.send(self.stream, first + rows)
            call()

        return encode

    def move(self, source: int, target: int, frames: int, turn: int) -> None:
        """Put all that the device holds of a row in the place of another one.

        That is what a pass of that `turn` and of so many frames reads.
        """
        device, shape = self.chain.device, self.chain.shape
        each = shape.heads * shape.padded_head_dim
        for buffer, size in ((self.memory, each * frames), (self.caches[turn], each * shape.past)):
            device.copy_columns(buffer, source * size, target * size, size, self.stream, "rows")
        length = self.memory_length
        device.copy(length.view((1,), source), length.view((1,), target), self.stream, "rows")

    # -- the decoder

    def tokens(self, shape: Pass) -> NDArray[np.int64]:
        """The host's (rows, queries) of what a pass is fed."""
        return self._window(shape).tokens

    def positions(self, shape: Pass, after: int = 0) -> NDArray[np.int64]:
        """The host's (rows,) of where in the cache a pass begins, or the one `after` it."""
        return self._window(shape).positions[(shape.turn + after) % 2]

    def decode(self, shape: Pass, align: bool = False) -> None:
        """Run a pass; `answers`, and with `align` also `align`, are there once it is over."""
        self.graphs.get(shape, partial(self._passes, shape)).replay()
        if align:
            self._align.fetch(self.stream, shape.steps * self._align_step(shape))

    def answers(self, shape: Pass) -> Answers:
        """`next_token`, `frame`, `logprob`, `margin`: (steps, rows, queries), once it is over."""
        return self._window(shape).answers

    def align(self, shape: Pass, step: int = 0) -> NDArray[np.float32]:
        """The (rows, queries, frames) attention of a step that is over."""
        at = step * self._align_step(shape)
        return self._align.host.view((shape.rows, shape.queries, shape.frames), at).host

    def _window(self, shape: Pass) -> _Window:
        """What the host sees of a pass; kept, for it is asked for often."""
        window = self._windows.get(shape)
        if window is None:
            if len(self._windows) >= self._kept:
                self._windows.clear()
            window = self._windows[shape] = self._open(shape)
        return window

    def _open(self, shape: Pass) -> _Window:
        fed = self._fed.host
        size = (shape.rows, shape.queries)
        return _Window(
            fed.view(size, self._tokens_at, np.int64).host,
            [
                fed.view((shape.rows,), turn * (self._tokens_at // 2), np.int64).host
                for turn in (0, 1)
            ],
            self._of_all_steps(shape),
        )

    def _of_all_steps(self, shape: Pass) -> Answers:
        """Views of each step's answers, as `_answered` has them, one behind the other."""
        sizes = (shape.steps, shape.rows, shape.queries)
        whole, at, found = self._answers.host.host, 0, {}
        for name, dtype in _ANSWERS.items():
            size = np.dtype(dtype).itemsize
            strides = (_slot(shape.count), shape.queries * size, size)
            found[name] = np.ndarray(sizes, dtype, whole, at, strides)
            at += aligned(shape.count * size)
        return found

    @staticmethod
    def _answered(answers: Buffer, shape: Pass, step: int) -> dict[str, Buffer]:
        at, found = step * _slot(shape.count), {}
        for name, dtype in _ANSWERS.items():
            found[name] = answers.view((shape.rows, shape.queries), at, dtype)
            at += aligned(shape.count * np.dtype(dtype).itemsize)
        return found

    @staticmethod
    def _align_step(shape: Pass) -> int:
        return aligned(shape.count * shape.frames, 4)

    def _passes(self, shape: Pass) -> Call:
        """The chain as often as `shape` says: tokens in, answers out, no look of the host."""
        calls: list[Call] = []
        tokens = self._fed.there.view((shape.rows, shape.queries), self._tokens_at, np.int64)
        for step in range(shape.steps):
            turn = (shape.turn + step) % 2
            calls += self._chain(shape, turn, step, tokens)
            tokens = self._answered(self._answers.there, shape, step)["next_token"]
        sent = self._tokens_at + shape.count * 8
        fetched = shape.steps * _slot(shape.count)

        def run() -> None:
            self._fed.send(self.stream, sent)
            for call in calls:
                call()
            self._answers.fetch(self.stream, fetched)

        return run

    def _chain(self, shape: Pass, turn: int, step: int, tokens: Buffer) -> list[Call]:
        chain, rows, queries = self.chain, shape.rows, shape.queries
        hidden = [each.view((rows, queries, chain.shape.width)) for each in self.hidden]
        shares = [each.view((rows, queries, shape.frames)) for each in self.shares]
        offered = {
            "tokens": tokens,
            "memory_length": self.memory_length.view((rows,)),
            "table": chain.table,
            **self._memory(rows, shape.frames),
            **self._cache("past", turn, rows),
            **self._cache("new", 1 - turn, rows),
            **self._answered(self._answers.there, shape, step),
            "align": self._align.there.view(
                (rows, queries, shape.frames), step * self._align_step(shape)
            ),
            "position": self._position(turn, rows),
        }
        own = chain.own_decoder
        if own is not None and not shape.tiled and queries not in self.tiled.queries:
            offered["position_next"] = self._position(1 - turn, rows)
            return [self._bind(own, offered)]
        calls = [self._bind(chain.embedding, {**offered, "hidden": hidden[0]})]
        for number, program in enumerate(chain.tiles):
            here, there = number % 2, 1 - number % 2
            offered |= {"hidden": hidden[here], "hidden_next": hidden[there]}
            offered |= {"align_past": shares[here], "align_next": shares[there]}
            if number + 1 == len(chain.tiles):
                offered["position_next"] = self._position(1 - turn, rows)
            calls.append(self._bind(program, offered))
        return calls

    def _bind(self, program: Program, offered: Mapping[str, Buffer]) -> Call:
        known = {**program.inputs, **program.outputs}
        wanted = {name: buffer for name, buffer in offered.items() if name in known}
        return program.bind(wanted, self.stream)

    def choose(self) -> None:
        """Find what goes through the tiles, where the device has kernels of its own besides.

        Do it before anything counts: nobody has compared the two so far.
        """
        if self.chain.has_own and self.buckets.query_sizes:
            self.tiled = self.chain.tiled(lambda: trial.through_tiles(self))
            self.graphs.close()

    def chains_of(self, rows: int) -> tuple[int, ...]:
        """The chains that a pass of so many rows may be: of a batch some row is done soon."""
        return self.chains if rows == 1 else self.chains[:2]

    def warm(self) -> None:
        """Choose, capture what updates want, run it once; nothing where shapes are exact."""
        buckets = self.buckets
        self.choose()
        self.length.host.host[...] = self.chain.shape.shortest
        for rows in buckets.row_sizes:
            for samples in buckets.sample_sizes:
                if not self.size.fits(rows, samples):
                    continue
                self.encode(rows, samples)
                for shape in self._likely(rows, samples):
                    self.decode(shape)
                self.stream.synchronize()
        self.graphs.warm = True

    def _likely(self, rows: int, samples: int) -> Iterator[Pass]:
        """The passes that updates want; of a batch only those that most do."""
        shape = self.chain.shape
        frames = shape.frames(samples)
        longest = self.buckets.queries(
            min(shape.longest, int(shape.tokens_per_second * samples / shape.rate) + 1) + 1
        )
        for queries in self.buckets.query_sizes:
            if rows > 1 and queries > longest:
                continue
            # A draft is checked in the first turn, chains follow it in the second; both come in
            # both where each step has a look.
            turns: tuple[int, ...] = (0, 1) if queries <= LONG else (0,)
            if self.chains[-1] > 1:
                turns = (1,) if queries == 1 else (0,)
            chains = self.chains_of(rows) if queries == 1 else (1,)
            for turn in turns:
                for steps in chains:
                    yield Pass(rows, queries, frames, turn, steps)

    # -- views

    def _position(self, turn: int, rows: int) -> Buffer:
        return self._fed.there.view((rows,), turn * (self._tokens_at // 2), np.int64)

    def _memory(self, rows: int, frames: int, first: int = 0) -> dict[str, Buffer]:
        shape = self.chain.shape
        each = (rows, shape.heads, frames, shape.padded_head_dim)
        return self._layered("memory", self.memory, each, first)

    def _cache(self, name: str, turn: int, rows: int) -> dict[str, Buffer]:
        shape = self.chain.shape
        each = (rows, shape.heads, shape.past, shape.padded_head_dim)
        return self._layered(name, self.caches[turn], each)

    def _layered(
        self, name: str, buffer: Buffer, each: tuple[int, ...], first: int = 0
    ) -> dict[str, Buffer]:
        """Every layer's keys and values, from row `first` on, as a view of one (2·layers, …)."""
        layers, stride = self.chain.shape.decoder_layers, buffer.shape[1]
        row = first * math.prod(each[1:])
        return {
            f"{name}_{kind}_{index}": buffer.view(each, (half * layers + index) * stride + row)
            for half, kind in enumerate("kv")
            for index in range(layers)
        }


def _chains(chained: int) -> tuple[int, ...]:
    """The lengths of chains on a device that runs so many steps at least."""
    most = max(chained, MOST)
    return tuple(sorted({chained, min(2 * chained, most), most})) if chained > 1 else (1,)


def _slot(count: int) -> int:
    """Bytes of the answers to `count` tokens."""
    return sum(aligned(count * np.dtype(dtype).itemsize) for dtype in _ANSWERS.values())

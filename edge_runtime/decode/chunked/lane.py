"""One lane of a streaming transducer: its stream of the device, and calls bound to its buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.chunked.chain import ChunkChain
from edge_runtime.decode.chunked.states import Half, words
from edge_runtime.decode.graphs import Graphs
from edge_runtime.decode.mirror import Mirror
from edge_runtime.decode.places import aligned
from edge_runtime.device.base import Buffer, Call

KEPT = 512
"""Bound calls of one lane: on a CPU each stream has two of its own, and some for its end."""

_ANSWERS = {"token": np.int64, "frame": np.int64, "logprob": np.float32, "margin": np.float32}

Answers = dict[str, NDArray[np.generic]]


class ChunkLane:
    """Preallocated buffers for a chunk of up to `rows` streams at a time, from one thread.

    Where a batch saves nothing, a row reads and writes the pages of its stream in place. Else rows
    are brought together in pages of the lane, and taken back: streams of a batch lie anywhere, and
    few calls serve all of them.
    """

    def __init__(self, chain: ChunkChain, rows: int) -> None:
        self.chain = chain
        self.rows = min(rows, chain.rows)
        device, shape = chain.device, chain.shape
        self.stream = device.stream()
        self.graphs = Graphs(device, self.stream, KEPT)
        self.padding = {"samples": (0, 0), "queries": (0, 0)}
        """What calls were made for so far, by kind: real ones, and more for nothing."""
        self.scratch = [(Half(device, shape), Half(device, shape)) for _ in range(self.rows)]
        """For each row of a batch: where silence behind a stream leads."""
        self._spare = words(device, shape, self.rows)
        self.audio = device.alloc((self.rows, shape.samples), np.float32)
        self.blank = Mirror(device, (self.rows,), np.int64, "length")
        self.frames = Mirror(device, (self.rows,), np.int64, "length")
        self.encoded = device.alloc((self.rows, shape.frames, shape.width), chain.dtype)
        self._zeros = device.alloc((self.rows,), np.int64)
        self._answers = [Mirror(device, (self._slot,), np.uint8, "results") for _ in "ab"]
        self._together: tuple[Half, Half] | None = None
        if device.batches:
            self._together = (Half(device, shape, self.rows), Half(device, shape, self.rows))

    def choose(self) -> None:
        """There is one way of doing it."""

    # -- a chunk

    def run(self, moves: Sequence[tuple[Half, Half]], rows: int) -> None:
        """Encode the chunks whose audio is staged and decode them, each from one half to another.

        `rows` are as many as there are moves, or more for a size that was made before.
        """
        if self._together is None:
            self._replay(*moves[0], rows)
            return
        before, after = self._together
        for number, (source, _) in enumerate(moves):
            self._copy(source.row(0), before.row(number))
        self._replay(before, after, rows)
        for number, (_, target) in enumerate(moves):
            self._copy(after.row(number), target.row(0))

    def again(self, moves: Sequence[tuple[Half, Half]], rows: int, turn: int) -> None:
        """Go on decoding the same frames, from where the cursors of answers `1 - turn` are."""
        half = moves[0][1] if self._together is None else self._together[1]
        key = ("again", id(half), rows, turn)
        bind = partial(self._greedy, half.words, self._spare, rows, turn)
        self.graphs.get(key, bind).replay()
        for name, buffer in _rows(half.words, rows).items():
            spare = self._spare[name].view(buffer.shape)
            self.chain.device.copy(spare, buffer, self.stream, "state")
        if self._together is not None:
            for number, (_, target) in enumerate(moves):
                self._copy(half.row(number), target.row(0))

    def answers(self, rows: int, turn: int) -> Answers:
        """What came of the newest steps as the host sees it: (rows, steps), `cursor` (rows)."""
        told = self._told(self._answers[turn].host, rows)
        return {name: buffer.host for name, buffer in told.items()}

    def _replay(self, source: Half, target: Half, rows: int) -> None:
        key = ("chunk", id(source), id(target), rows)
        self.graphs.get(key, partial(self._chunk, source, target, rows)).replay()

    def _chunk(self, source: Half, target: Half, rows: int) -> Call:
        encoded = self.encoded.view((rows, *self.encoded.shape[1:]))
        encode = self.chain.encoder.bind(
            {
                "audio": self.audio.view((rows, self.audio.shape[1])),
                "blank": self.blank.there.view((rows,)),
                "encoded": encoded,
                **_rows(source.pages, rows),
                **{f"{name}_next": each for name, each in _rows(target.pages, rows).items()},
            },
            self.stream,
        )
        decode = self._greedy(source.words, target.words, rows, 0, first=True)

        def call() -> None:
            self.blank.send(self.stream, rows)
            self.frames.send(self.stream, rows)
            encode()
            decode()

        return call

    def _greedy(
        self,
        source: Mapping[str, Buffer],
        target: Mapping[str, Buffer],
        rows: int,
        turn: int,
        *,
        first: bool = False,
    ) -> Call:
        told = self._told(self._answers[turn].there, rows)
        if first:
            cursor = given = self._zeros.view((rows,))
        else:
            earlier = self._told(self._answers[1 - turn].there, rows)
            cursor, given = earlier["cursor"], earlier["given"]
        decode = self.chain.greedy.bind(
            {
                "encoded": self.encoded.view((rows, *self.encoded.shape[1:])),
                "frames": self.frames.there.view((rows,)),
                "cursor": cursor,
                "given": given,
                **{name: told[name] for name in _ANSWERS},
                "cursor_next": told["cursor"],
                "given_next": told["given"],
                **_rows(source, rows),
                **{f"{name}_next": each for name, each in _rows(target, rows).items()},
            },
            self.stream,
        )

        def call() -> None:
            decode()
            self._answers[turn].fetch(self.stream, self._slot)

        return call

    # -- views

    @property
    def _slot(self) -> int:
        steps = self.chain.shape.steps
        numbers = [self.rows * steps * np.dtype(each).itemsize for each in _ANSWERS.values()]
        return sum(map(aligned, [*numbers, self.rows * 8, self.rows * 8]))

    def _told(self, buffer: Buffer, rows: int) -> dict[str, Buffer]:
        steps, at = self.chain.shape.steps, 0
        told = {}
        for name, dtype in _ANSWERS.items():
            told[name] = buffer.view((rows, steps), at, dtype)
            at += aligned(rows * steps * np.dtype(dtype).itemsize)
        for name in ("cursor", "given"):
            told[name] = buffer.view((rows,), at, np.int64)
            at += aligned(rows * 8)
        return told

    def _copy(self, source: dict[str, Buffer], target: dict[str, Buffer]) -> None:
        for name, buffer in source.items():
            self.chain.device.copy(buffer, target[name], self.stream, "state")


def _rows(buffers: Mapping[str, Buffer], rows: int) -> dict[str, Buffer]:
    return {name: each.view((rows, *each.shape[1:])) for name, each in buffers.items()}

"""Runs updates on a lane: encode, check the drafts, go on token by token."""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.sequence import Sequence
from edge_runtime.decode.tiles import Call, Chain, Lane, Size
from edge_runtime.decode.update import Cost, Hypothesis, Update
from edge_runtime.errors import AudioError

Audio = Seq[NDArray[np.float32]]
"""An update's samples as one or more pieces in order (a ring wraps)."""


class Runner:
    """One lane of a chain: one batch of updates at a time, from one thread at a time."""

    def __init__(self, chain: Chain, size: Size) -> None:
        self.chain = chain
        self.size = size
        self._lane = Lane(chain, size)

    def run(self, updates: Seq[Update], audio: Seq[Audio]) -> list[Hypothesis]:
        """The greedy hypotheses of `updates`, in their order.

        Raises `AudioError` for a batch or a row that is larger than the lane.
        """
        began = time.perf_counter()
        samples = self._stage(audio)
        self._lane.encode(len(updates), samples)
        encoded = time.perf_counter()
        decoding = _Decoding(self._lane, updates, self.chain.shape.frames(samples))
        decoding.advance()
        drafted = time.perf_counter()
        while not decoding.done:
            decoding.advance()
        ended = time.perf_counter()
        spent = Cost(encode=encoded - began, draft=drafted - encoded, decode=ended - drafted)
        return [decoding.hypothesis(row, spent) for row in range(len(updates))]

    def _stage(self, audio: Seq[Audio]) -> int:
        """Copy the rows into the staging buffer, zero-padded; the samples of the longest one."""
        lane, shortest = self._lane, self.chain.shape.shortest
        lengths = [sum(len(piece) for piece in pieces) for pieces in audio]
        longest = max([shortest, *lengths])
        if len(audio) > self.size.rows or longest > self.size.samples:
            raise AudioError(
                f"a batch of {len(audio)} rows of {longest} samples does not fit in "
                f"{self.size.rows} rows of {self.size.samples}"
            )
        # The rows of a call lie densely, at the length of the longest.
        staged = lane.audio.view((len(audio), longest)).host
        for row, (pieces, length) in enumerate(zip(audio, lengths, strict=True)):
            at = 0
            for piece in pieces:
                staged[row, at : at + len(piece)] = piece
                at += len(piece)
            staged[row, at:] = 0.0
            lane.length.host[row] = max(length, shortest)
        return longest


class _Decoding:
    """The passes of one batch: which tokens go in, what comes out, for every row."""

    def __init__(self, lane: Lane, updates: Seq[Update], frames: int) -> None:
        shape = lane.chain.shape
        self._lane = lane
        self._updates = updates
        self._frames = frames
        self._turn = 0
        self._calls: dict[tuple[int, int, int], Call] = {}
        most = shape.past - 16
        self._sequences = [
            Sequence(shape.begin, shape.end, update.forced, update.draft, min(update.limit, most))
            for update in updates
        ]
        self._rows: list[list[NDArray[np.float32]]] = [[] for _ in updates]

    @property
    def done(self) -> bool:
        return all(sequence.done for sequence in self._sequences)

    def advance(self) -> None:
        """One decoder pass over the rows up to the last that is not done.

        Rows lie densely, so that those at the end can be left out: a batch whose longest
        comes first shrinks as it goes. Done rows before it feed their last token again.
        """
        lane = self._lane
        count = 1 + max(row for row, each in enumerate(self._sequences) if not each.done)
        fed = [sequence.feed() for sequence in self._sequences[:count]]
        queries = max(len(f) for f, s in zip(fed, self._sequences, strict=False) if not s.done)
        tokens = lane.tokens.view((count, queries)).host
        position = lane.positions[self._turn].view((count,)).host
        tokens[...] = 0
        for row, sequence in enumerate(self._sequences[:count]):
            offered = fed[row][:queries]
            tokens[row, : len(offered)] = offered
            position[row] = sequence.position
        self._call(count, queries)
        self._deliver(count, queries)
        self._turn = 1 - self._turn

    def _call(self, count: int, queries: int) -> None:
        lane, key = self._lane, (count, queries, self._turn)
        call = self._calls.get(key)
        if call is None:
            call = self._calls[key] = lane.decoder_pass(count, queries, self._frames, self._turn)
        call(lane.stream)
        lane.stream.synchronize()

    def _deliver(self, count: int, queries: int) -> None:
        lane, shape = self._lane, (count, queries)
        results = {name: buffer.view(shape).host.tolist() for name, buffer in lane.results.items()}
        for row, sequence in enumerate(self._sequences[:count]):
            if sequence.done:
                continue
            taken = sequence.take(
                results["next_token"][row],
                results["logprob"][row],
                results["margin"][row],
                results["frame"][row],
            )
            if self._updates[row].align:
                attention = lane.align(count, queries, self._frames)
                self._rows[row].append(attention[row, :taken].copy())

    def hypothesis(self, row: int, spent: Cost) -> Hypothesis:
        update, sequence = self._updates[row], self._sequences[row]
        frames = self._lane.chain.shape.frames(int(self._lane.length.host[row]))
        cost = replace(
            spent,
            drafted=sequence.drafted,
            accepted=sequence.accepted,
            bonus=sequence.bonus,
            produced=sequence.produced,
            passes=sequence.passes,
            steps=sequence.steps,
        )
        align = None
        if update.align:
            align = np.concatenate(self._rows[row])[: len(sequence.tokens), :frames]
        return Hypothesis(
            update,
            tuple(sequence.tokens),
            tuple(sequence.logprobs),
            tuple(sequence.margins),
            tuple(sequence.frames),
            sequence.ended,
            frames,
            align,
            cost,
        )

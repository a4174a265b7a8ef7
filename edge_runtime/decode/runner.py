"""Runs updates on a lane: encode, check the drafts, go on token by token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.costs import Costs
from edge_runtime.decode.decoding import LIKELY, Decoding
from edge_runtime.decode.lane import Lane
from edge_runtime.decode.round import Round
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.update import Cost, Hypothesis, Purpose, Update
from edge_runtime.decode.watch import Unwatched, Watch
from edge_runtime.errors import AudioError, DeviceError

Audio = Seq[NDArray[np.float32]]
"""An update's samples as one or more pieces in order (a ring wraps)."""


class Runner:
    """One lane of a chain: one batch of updates at a time, from one thread at a time."""

    def __init__(self, chain: Chain, size: Size) -> None:
        self.chain = chain
        self.size = size
        self.lane = Lane(chain, size)
        self.slots: tuple[()] = ()
        """Nothing is kept of a stream between updates."""
        self.watch: Watch = Unwatched()
        self.costs = Costs()
        """What batches cost here, once somebody has measured it."""

    def run(self, updates: Seq[Update], audio: Seq[Audio]) -> list[Hypothesis]:
        """The greedy hypotheses of `updates`, in their order.

        Raises `AudioError` for a batch or a row that is larger than the lane, or for rows of
        different lengths where tiles hide nothing, `DeviceError` for answers that are no numbers.
        """
        found: dict[int, Hypothesis] = {}
        for each in self.rounds(updates, audio):
            for row, result in each.done.items():
                if isinstance(result, DeviceError):
                    raise result
                found[row] = result
        return [found[row] for row in range(len(updates))]

    def rounds(
        self,
        updates: Seq[Update],
        audio: Seq[Audio],
        recalled: Callable[[], bool] = lambda: False,
    ) -> Iterator[Round]:
        """The same as they are done, by their row: after each look of the host those that ended.

        The first round has none: the device has begun, and the host has time. So on, until all are
        done, or `recalled` says before a pass that the rest is not wanted now. A row whose answers
        are no numbers gives its error and leaves the others alone.
        Raises as `run` does for a batch that is too large, and what the device raises.
        """
        if recalled():
            return
        lane, watch = self.lane, self.watch
        watch.begin(updates)
        order = _longest_first(updates, lane.chain.shape.rate)
        waited = lane.stream.counters.waits
        began = lane.stream.mark()
        watch.stage("encode", began)
        rows, samples = self._stage([audio[row] for row in order])
        lane.encode(rows, samples)
        encoded = lane.stream.mark()
        watch.stage("draft", encoded)
        decoding = Decoding(lane, [updates[row] for row in order], self.chain.shape.frames(samples))
        decoding.send()
        left, drafted = len(updates), None
        try:
            yield Round(ending=decoding.ending)
            while left:
                ended = decoding.receive()
                drafted = drafted or ended
                spent = Cost(
                    encode=encoded.since(began),
                    draft=drafted.since(encoded),
                    decode=ended.since(drafted),
                    waits=lane.stream.counters.waits - waited,
                    rows=len(updates),
                )
                done = decoding.ended()
                left -= len(done)
                over = not left or recalled()
                if not over:
                    watch.stage("decode", ended)
                    decoding.send()
                elif not left:
                    watch.end(ended)
                found = {order[row]: decoding.result(row, spent) for row in done}
                if over:
                    rest = {order[row]: draft for row, draft in decoding.left().items()}
                    yield Round(found, left=rest)
                    return
                yield Round(found, decoding.ending)
        finally:
            if left:  # what was staged must not change under it
                lane.stream.synchronize()

    def warm(self) -> None:
        """Run the largest update there can be, and make the graphs that updates will want.

        What is allocated for that serves all others.
        """
        silence = np.zeros(self.size.samples, np.float32)
        guess = (3,) * self.chain.shape.longest
        update = Update("warm-up", 0, Purpose.FINAL, 0, len(silence), draft=guess)
        self.run([update], [[silence]])
        self.lane.warm()

    def close(self) -> None:
        """Let go of what was captured, which holds the lane's memory."""
        self.lane.graphs.close()

    def _stage(self, audio: Seq[Audio]) -> tuple[int, int]:
        """Put the audio into the staging rows; how many rows of how many samples these are."""
        lane, shortest = self.lane, self.chain.shape.shortest
        lengths = [sum(len(piece) for piece in pieces) for pieces in audio]
        longest = max([shortest, *lengths])
        rows, samples = lane.buckets.rows(len(audio)), lane.buckets.samples(longest)
        if not self.size.fits(rows, samples):
            most = f", {self.size.whole} in all" if self.size.together else ""
            raise AudioError(
                f"a batch of {len(audio)} rows of {longest} samples does not fit in "
                f"{self.size.rows} rows of {self.size.samples}{most}"
            )
        if lane.chain.shape.fused and longest > max(shortest, min(lengths)):
            raise AudioError(
                f"a batch of rows of {min(lengths)} to {longest} samples: these tiles hide nothing",
                "Decode rows of different lengths one by one.",
            )
        lane.length.host.host[:rows] = shortest
        for row, (pieces, length) in enumerate(zip(audio, lengths, strict=True)):
            lane.stage(row, list(pieces), samples)
            lane.length.host.host[row] = max(length, shortest)
        lane.filled("samples", rows * samples, sum(lengths))
        return rows, samples


def _longest_first(updates: Seq[Update], rate: int) -> list[int]:
    """The rows in the order in which they lie: those that likely take most steps first."""
    if len(updates) == 1:
        return [0]

    def left(row: int) -> float:
        update = updates[row]
        return LIKELY * (update.end - update.start) / rate - len(update.draft)

    return sorted(range(len(updates)), key=left, reverse=True)

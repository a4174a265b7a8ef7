"""Runs updates on a lane: encode, check the drafts, go on token by token."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode import numbers
from edge_runtime.decode.costs import Costs
from edge_runtime.decode.lane import Lane
from edge_runtime.decode.passes import Pass
from edge_runtime.decode.sequence import Sequence
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.update import Cost, Hypothesis, Purpose, Update
from edge_runtime.decode.watch import Unwatched, Watch
from edge_runtime.device.base import Mark
from edge_runtime.errors import AudioError, DeviceError

Audio = Seq[NDArray[np.float32]]
"""An update's samples as one or more pieces in order (a ring wraps)."""


LIKELY = 3.0
"""Tokens a second of audio that most speech has at least."""

NEW = 2
"""Tokens that follow a draft more often than not."""


class Runner:
    """One lane of a chain: one batch of updates at a time, from one thread at a time."""

    def __init__(self, chain: Chain, size: Size) -> None:
        self.chain = chain
        self.size = size
        self.lane = Lane(chain, size)
        self.watch: Watch = Unwatched()
        self.costs = Costs()
        """What batches cost here, once somebody has measured it."""

    def run(self, updates: Seq[Update], audio: Seq[Audio]) -> list[Hypothesis]:
        """The greedy hypotheses of `updates`, in their order.

        Raises `AudioError` for a batch or a row that is larger than the lane, `DeviceError` for
        answers that are no numbers.
        """
        found: dict[int, Hypothesis] = {}
        for done in self.rounds(updates, audio):
            for row, result in done.items():
                if isinstance(result, DeviceError):
                    raise result
                found[row] = result
        return [found[row] for row in range(len(updates))]

    def rounds(
        self,
        updates: Seq[Update],
        audio: Seq[Audio],
        recalled: Callable[[], bool] = lambda: False,
    ) -> Iterator[dict[int, Hypothesis | DeviceError]]:
        """The same as they are done, by their row: after each look of the host those that ended.

        Until all are done, or `recalled` says before a look that the rest is not wanted now. A row
        whose answers are no numbers gives its error and leaves the others alone.
        Raises as `run` does for a batch that is too large, and what the device raises.
        """
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
        decoding = _Decoding(
            lane, [updates[row] for row in order], self.chain.shape.frames(samples)
        )
        ended = drafted = began
        left = len(updates)
        while left and not recalled():
            if decoding.looks:
                watch.stage("decode", ended)
            ended = decoding.advance()
            if decoding.looks == 1:
                drafted = ended
            done = decoding.ended()
            left -= len(done)
            if not left:
                watch.end(ended)
            spent = Cost(
                encode=encoded.since(began),
                draft=drafted.since(encoded),
                decode=ended.since(drafted),
                waits=lane.stream.counters.waits - waited,
                rows=len(updates),
            )
            yield {order[row]: decoding.result(row, spent) for row in done}
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


class _Decoding:
    """The passes of one batch: which tokens go in, what comes out, for every row."""

    def __init__(self, lane: Lane, updates: Seq[Update], frames: int) -> None:
        shape = lane.chain.shape
        self._lane = lane
        self._updates = updates
        self._frames = frames
        self._turn = 0
        self.looks = 0
        self._told: set[int] = set()
        self._aligned = any(update.align for update in updates)
        self._sequences = [
            Sequence(
                shape.opening(update.language or update.guess, update.task),
                shape.end,
                update.forced,
                update.draft,
                min(update.limit, shape.longest),
                guessed_mark=bool(shape.prompt.languages) and not update.language,
            )
            for update in updates
        ]
        self._rows: list[list[NDArray[np.float32]]] = [[] for _ in updates]
        self._failed: dict[int, DeviceError] = {}

    def ended(self) -> list[int]:
        """The rows that are done since the last time that this was asked."""
        new = [
            row
            for row, sequence in enumerate(self._sequences)
            if sequence.done and row not in self._told
        ]
        self._told.update(new)
        return new

    def advance(self) -> Mark:
        """One look of the host: a pass that checks guesses, or a chain of single steps.

        Gives the mark behind its work. Rows lie densely, so that those at the end can be
        left out: a batch whose longest comes first shrinks as it goes. Done rows before
        it feed their last token again.
        """
        lane = self._lane
        count = 1 + max(row for row, each in enumerate(self._sequences) if not each.done)
        active = [each for each in self._sequences[:count] if not each.done]
        if self.looks and lane.chains[-1] > 1:
            # A draft that was refused once is refused again too often: each time costs a look
            # and as much as two steps, of which many go with one look.
            for each in active:
                each.step()
        queries = max(len(each.feed()) for each in active)
        rows = lane.buckets.rows(count)
        if queries == 1 and not self.looks and lane.chains[-1] > 1:
            # Empty caches have no order: chains begin in the turn that follows a check.
            self._turn = 1
        shape = Pass(
            rows,
            lane.buckets.queries(queries),
            self._frames,
            self._turn,
            self._steps(lane.chains_of(rows)) if queries == 1 else 1,
        )
        tokens, position = lane.tokens(shape), lane.positions(shape)
        tokens[...] = 0
        position[...] = 0
        for row, sequence in enumerate(self._sequences[:count]):
            offered = sequence.feed()[:queries]
            tokens[row, : len(offered)] = offered
            position[row] = sequence.position
        lane.decode(shape, self._aligned)
        mark = lane.stream.mark()
        lane.stream.synchronize()
        real = sum(self._deliver(shape, step, count) for step in range(shape.steps))
        lane.filled("queries", shape.count * shape.steps, real)
        self._turn = (self._turn + shape.steps) % 2
        self.looks += 1
        return mark

    def _steps(self, chains: Seq[int]) -> int:
        """Single tokens before the host looks: as many as it likely takes, of what there is."""
        rate = self._lane.chain.shape.rate
        likely = sorted(
            max(
                LIKELY * (update.end - update.start) / rate - len(sequence.tokens),
                sequence.guessed + NEW,
            )
            for update, sequence in zip(self._updates, self._sequences, strict=True)
            if not sequence.done
        )
        # Of a batch: a look is shared by all, and whoever is done before it waits for it.
        middle = likely[len(likely) // 2]
        # Who was looked at twice has a text that changed: a few steps too many cost less than
        # one more look.
        least = chains[:2][-1] if self.looks > 1 else chains[0]
        return max([least, *(each for each in chains if each <= middle)])

    def _deliver(self, shape: Pass, step: int, count: int) -> int:
        """Hand out what a step answered; how many tokens were asked about."""
        asked = 0
        answers = {name: rows.tolist() for name, rows in self._lane.answers(shape, step).items()}
        for row, sequence in enumerate(self._sequences[:count]):
            if sequence.done:
                continue
            if step:
                sequence.step()
            fed = len(sequence.feed())
            asked += fed
            logprobs = answers["logprob"][row][:fed]
            if (error := numbers.refused(logprobs)) is not None:
                self._failed[row] = error
                sequence.done = True
                continue
            silent = sequence.silent
            taken = sequence.take(
                answers["next_token"][row], logprobs, answers["margin"][row], answers["frame"][row]
            )
            if self._updates[row].align:
                attention = self._lane.align(shape, step)
                self._rows[row].append(attention[row, silent:taken].copy())
        return asked

    def result(self, row: int, spent: Cost) -> Hypothesis | DeviceError:
        """What came of a row that is done."""
        if row in self._failed:
            return self._failed[row]
        update, sequence = self._updates[row], self._sequences[row]
        shape = self._lane.chain.shape
        frames = shape.heard(int(self._lane.length.host.host[row]))
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
            sequence.counted(spent),
            language=shape.prompt.language(sequence.mark or 0),
            silence=sequence.first if shape.prompt.hears_silence else -math.inf,
        )

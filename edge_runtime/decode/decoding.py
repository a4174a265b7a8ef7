"""The passes of one batch: which tokens go in, what comes out, which rows go on."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode import numbers
from edge_runtime.decode.lane import Lane
from edge_runtime.decode.passes import Pass
from edge_runtime.decode.sequence import Sequence
from edge_runtime.decode.update import Cost, Hypothesis, Update
from edge_runtime.device.base import Mark
from edge_runtime.errors import DeviceError

LIKELY = 3.0
"""Tokens a second of audio that most speech has at least."""

NEW = 2
"""Tokens that follow a draft more often than not."""

FEW = 0.6
"""The part of a batch's rows that are left where it is called ending."""


class Decoding:
    """One batch whose audio is encoded, until every row is done."""

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
                marks=() if update.language else shape.prompt.marks(update.languages),
            )
            for update in updates
        ]
        self._rows: list[list[NDArray[np.float32]]] = [[] for _ in updates]
        self._failed: dict[int, DeviceError] = {}
        self._slots = list(range(len(updates)))
        """Which row lies where on the device."""
        self._sent: Pass
        self._mark: Mark
        self.ending = False
        """Few rows will go on behind what the device is at."""

    def ended(self) -> list[int]:
        """The rows that are done since the last time that this was asked."""
        new = [
            row
            for row, sequence in enumerate(self._sequences)
            if sequence.done and row not in self._told
        ]
        self._told.update(new)
        return new

    def left(self) -> dict[int, tuple[int, ...]]:
        """Drafts of the rows that are not done, with all that they said so far."""
        return {row: each.draft for row, each in enumerate(self._sequences) if not each.done}

    def send(self) -> None:
        """Give the device its next pass: one that checks guesses, or a chain of single steps.

        A batch shrinks as it goes; done rows that lie before others feed their last token again.
        """
        lane = self._lane
        self.ending = False
        self._close_up()
        lying = self._lying
        active = [each for each in lying if not each.done]
        if self.looks and lane.chains[-1] > 1:
            # A draft that was refused once is refused again too often: each time costs a look
            # and as much as two steps, of which many go with one look.
            for each in active:
                each.step()
        queries = max(len(each.feed()) for each in active)
        rows = lane.buckets.rows(len(self._slots))
        if queries == 1 and not self.looks and lane.chains[-1] > 1:
            # Empty caches have no order: chains begin in the turn that follows a check.
            self._turn = 1
        steps = self._chain(lane.chains_of(rows)) if queries == 1 else 1
        self._sent = shape = Pass(
            rows, lane.buckets.queries(queries), self._frames, self._turn, steps
        )
        tokens, position = lane.tokens(shape), lane.positions(shape)
        tokens[...] = 0
        position[...] = 0
        for slot, sequence in enumerate(lying):
            offered = sequence.feed()[:queries]
            tokens[slot, : len(offered)] = offered
            position[slot] = sequence.position
        lane.decode(shape, self._aligned)
        self._mark = lane.stream.mark()
        self._turn = (self._turn + shape.steps) % 2

    def receive(self) -> Mark:
        """Wait for what was sent, and hand out the answers; gives the mark behind its work."""
        lane, shape = self._lane, self._sent
        lane.stream.synchronize()
        lane.filled("queries", shape.count * shape.steps, self._deliver(shape))
        self.looks += 1
        return self._mark

    @property
    def _lying(self) -> list[Sequence]:
        """What is decoded, in the order in which it lies on the device."""
        return [self._sequences[row] for row in self._slots]

    def _close_up(self) -> None:
        """Let rows that go on take the places of done ones, where a smaller batch comes of it."""
        slots, buckets = self._slots, self._lane.buckets
        going = [slot for slot, each in enumerate(self._lying) if not each.done]
        del slots[going[-1] + 1 :]
        if buckets.rows(len(going)) == buckets.rows(len(slots)):
            return
        # A copy within the device costs less than one more token of a larger batch.
        free = sorted(set(range(len(going))) - set(going))
        for source, target in zip(going[len(going) - len(free) :], free, strict=True):
            self._lane.move(source, target, self._frames, self._turn)
            slots[target] = slots[source]
        del slots[len(going) :]

    def _chain(self, chains: Seq[int]) -> int:
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
        steps = max([least, *(each for each in chains if each <= middle)])
        few = len(likely) <= FEW * len(self._updates) or likely[-1] <= steps
        self.ending = chains[-1] > 1 and few
        return steps

    def _deliver(self, shape: Pass) -> int:
        """Hand out what a pass answered; how many tokens were asked about."""
        answers, alone = self._lane.answers(shape), shape.queries == 1
        finite = bool(np.isfinite(answers["logprob"]).all())
        # By row: what was said to all that it was fed, or, of single tokens, at each step.
        told = {
            name: (each[:, :, 0].T if alone else each[0]).tolist() for name, each in answers.items()
        }
        asked = 0
        for slot, row in enumerate(self._slots):
            sequence = self._sequences[row]
            if sequence.done:
                continue
            silent, fed = sequence.silent, len(sequence.feed())
            take = sequence.follow if alone else sequence.take
            logprobs = told["logprob"][slot]
            taken = take(
                told["next_token"][slot], logprobs, told["margin"][slot], told["frame"][slot]
            )
            fed = taken if alone else fed
            asked += fed
            if not finite and (error := numbers.refused(logprobs[:fed])) is not None:
                self._failed[row] = error
                sequence.done = True
            elif self._updates[row].align:
                self._rows[row] += self._attention(shape, slot, silent, taken)
        return asked

    def _attention(
        self, shape: Pass, slot: int, silent: int, taken: int
    ) -> list[NDArray[np.float32]]:
        """(tokens, frames) of those that were taken, in pieces."""
        if shape.queries > 1:
            return [self._lane.align(shape)[slot, silent:taken].copy()]
        return [self._lane.align(shape, step)[slot].copy() for step in range(taken)]

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

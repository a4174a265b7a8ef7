"""One update of a streaming model: its chunks, the state they go from and to, what was said."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode import numbers
from edge_runtime.decode.chunked.chain import ChunkChain
from edge_runtime.decode.chunked.shape import ChunkShape
from edge_runtime.decode.chunked.states import Half, Kept, Text
from edge_runtime.decode.chunked.window import cut
from edge_runtime.decode.update import Cost, Hypothesis, Purpose, Update

Audio = Sequence[NDArray[np.float32]]


class Job:
    """One update: which chunks are to be run, where its state is, and what was said."""

    def __init__(
        self,
        chain: ChunkChain,
        update: Update,
        audio: Audio,
        kept: Kept,
        scratch: tuple[Half, Half],
    ) -> None:
        """`scratch` holds what comes of silence behind a stream that may yet go on."""
        self.shape: ChunkShape = chain.shape
        self.update = update
        self.kept = kept
        self._start = chain.start
        self._scratch = scratch
        self._audio = audio
        self._heard = update.end - kept.base
        self._text = kept.text
        self._ending = False
        self._flushed = 0
        self.next = kept.chunks
        # Where audio was lost, the stream goes on behind it.
        while self.shape.end(self.next) <= update.start - kept.base:
            self.next += 1
        self._stop = self.next

    @property
    def due(self) -> bool:
        return self.next < self._stop

    def advance(self) -> bool:
        """Go on with the stream as far as its audio reaches."""
        self._stop = max(self.next, self.shape.ready(self._heard))
        return self.due

    def flush(self) -> bool:
        """Hear the stream to its end, which leaves its own state as it is: it may yet go on."""
        if self.update.purpose is Purpose.PARTIAL:
            return False
        self._text = self.kept.text.copy()
        self._ending = True
        if not self._cut:
            self._stop = max(self.next, self.shape.whole(self._heard))
        return self.due

    @property
    def _cut(self) -> bool:
        """The segment ends before what was heard of it: the rest is said in the next one."""
        return self._heard < self.kept.chunks * self.shape.hop

    def samples(self) -> list[NDArray[np.float32]]:
        """What the next chunk looks at; zeros follow where that is less than a chunk."""
        shape = self.shape
        begins = self.update.start - self.kept.base
        last = min(shape.end(self.next), self._heard)
        return cut(self._audio, begins, shape.begin(self.next), last, mirrored=shape.mirrored)

    def move(self) -> tuple[Half, Half]:
        """From which state to which the next chunk goes."""
        kept = self.kept
        now = kept.halves[kept.turn] if kept.chunks else self._start
        if not self._ending:
            return now, kept.halves[1 - kept.turn]
        turn = self._flushed % 2
        return self._scratch[1 - turn] if self._flushed else now, self._scratch[turn]

    def take(self, answers: dict[str, NDArray[np.generic]], row: int, shape: ChunkShape) -> int:
        """Note what was said in the steps just taken; gives how far the frames are decoded."""
        logprobs = answers["logprob"][row].tolist()
        tokens = answers["token"][row].tolist()
        for step, token in enumerate(tokens):
            if token == shape.blank:
                continue
            if (error := numbers.refused(logprobs[step : step + 1])) is not None:
                raise error
            frame = self.next * shape.frames + int(answers["frame"][row, step])
            self._text.add(token, logprobs[step], float(answers["margin"][row, step]), frame)
        return int(answers["cursor"][row])

    def done(self) -> None:
        """The chunk is through."""
        self.next += 1
        if self._ending:
            self._flushed += 1
            return
        self.kept.turn = 1 - self.kept.turn
        self.kept.chunks = self.next

    def hypothesis(self, cost: Cost) -> Hypothesis:
        shape, update = self.shape, self.update
        text = self._text
        heard = self._heard / shape.hop * shape.frames
        if self._ending and self._cut:
            text = text.until(heard)
        forced = update.forced
        if tuple(text.tokens[: len(forced)]) != forced:
            text = _forced(forced)
        skipped = round((update.start - self.kept.base) / shape.hop * shape.frames)
        frames = tuple(max(0, frame - skipped) for frame in text.frames)
        return Hypothesis(
            update,
            tuple(text.tokens),
            tuple(text.logprobs),
            tuple(text.margins),
            frames,
            True,
            max(0, math.ceil(heard)),
            cost=replace(cost, produced=len(text.tokens)),
            next_at=self.kept.base + shape.end(self.kept.chunks),
        )


def _forced(tokens: Sequence[int]) -> Text:
    """What was said before must stand; what follows it is not known."""
    count = len(tokens)
    return Text([*tokens], [0.0] * count, [0.0] * count, [0] * count)

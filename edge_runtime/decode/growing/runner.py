"""Runs updates on a growing memory: new audio is encoded once, the text is checked and goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode import numbers
from edge_runtime.decode.chunked.window import cut
from edge_runtime.decode.growing.chain import GrowingChain, Grown, Memory
from edge_runtime.decode.growing.lane import GrowingLane
from edge_runtime.decode.round import Round
from edge_runtime.decode.sequence import Sequence as Decode
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Cost, Hypothesis, Purpose, Update
from edge_runtime.decode.watch import Unwatched, Watch
from edge_runtime.device.base import Buffer
from edge_runtime.errors import AudioError

Audio = Sequence[NDArray[np.float32]]


class GrowingRunner:
    """One lane: one update at a time, from one thread at a time.

    The encoder's window slides: a vector that it has given never changes. So the memory is only
    ever added to, and an update encodes no more than is new. The text is read from all of it: the
    last one is checked as a draft in one pass, as that of models that hear everything again.
    """

    def __init__(self, chain: GrowingChain, size: Size, slots: Sequence[Grown] = ()) -> None:
        """`slots` belong to all lanes; an update that names none gets the lane's own."""
        self.chain = chain
        self.size = size
        self.slots = slots
        (self._own,) = chain.slots(1, size)
        self.lane = GrowingLane(chain, size.samples)
        self.watch: Watch = Unwatched()

    def close(self) -> None:
        """Nothing was captured."""

    def run(self, updates: Sequence[Update], audio: Sequence[Audio]) -> list[Hypothesis]:
        """The greedy hypotheses of `updates`, in their order, one after the other.

        Raises `AudioError` for more audio than the lane has room for, `DeviceError` for answers
        that are no numbers.
        """
        return [self._update(*each) for each in zip(updates, audio, strict=True)]

    def rounds(
        self,
        updates: Sequence[Update],
        audio: Sequence[Audio],
        recalled: Callable[[], bool] = lambda: False,
    ) -> Iterator[Round]:
        """The same by their row as they are done, until all are, or the rest is `recalled`."""
        for row, each in enumerate(zip(updates, audio, strict=True)):
            if recalled():
                return
            yield Round({row: self._update(*each)})

    def warm(self) -> None:
        """Run a stream to its end: what is allocated for that serves all others."""
        silence = np.zeros(2 * self.chain.shape.chunk, np.float32)
        self.run([Update("warm-up", 0, Purpose.FINAL, 0, len(silence))], [[silence]])
        self.lane.graphs.warm = True

    def _update(self, update: Update, pieces: Audio) -> Hypothesis:
        kept = self._own if update.slot is None else self.slots[update.slot]
        kept.open(update)
        # An update that may say but one word is to keep the device awake: nothing follows it.
        over = update.purpose is Purpose.FINAL or update.limit == 1
        try:
            found = self._run(update, pieces, kept)
        except BaseException:
            over = True  # what is in its buffers is anybody's guess
            raise
        finally:
            kept.close(over=over)
        return found

    def _run(self, update: Update, pieces: Audio, kept: Grown) -> Hypothesis:
        lane, shape = self.lane, self.chain.shape
        heard = update.end - kept.base
        if self.chain.vectors(heard) > kept.features.shape[0]:
            raise AudioError(
                f"{heard} samples are more than the {self.size.samples} that a lane has room for"
            )
        self.watch.begin([update])
        waited, began = lane.stream.counters.waits, lane.stream.mark()
        self.watch.stage("encode", began)
        begins = update.start - kept.base
        self._take_in(kept, pieces, begins, heard)
        if update.purpose is Purpose.PARTIAL:
            memory, length = kept.memories[kept.memory], kept.encoded
        else:
            memory, length = self._end(kept, pieces, begins, heard)
        encoded = lane.stream.mark()
        self.watch.stage("draft", encoded)
        decode = Decode(
            (shape.begin,),
            shape.end,
            update.forced,
            update.draft,
            min(update.limit, shape.past - 1),
        )
        if not length:
            decode.done = decode.ended = True
        while not decode.done:
            self._pass(decode, memory, length)
        ended = lane.stream.mark()
        lane.stream.synchronize()
        self.watch.end(ended)
        frames = self._frames(kept, decode.tokens, length)
        if update.purpose is Purpose.PARTIAL:
            kept.said = list(zip(decode.tokens, frames, strict=True))
        cost = Cost(
            encode=encoded.since(began),
            decode=ended.since(encoded),
            waits=lane.stream.counters.waits - waited,
        )
        return Hypothesis(
            update,
            tuple(decode.tokens),
            tuple(decode.logprobs),
            tuple(decode.margins),
            tuple(frames),
            decode.ended,
            length,
            cost=decode.counted(cost),
        )

    # -- audio to memory

    def _take_in(self, kept: Grown, pieces: Audio, begins: int, heard: int) -> None:
        """All whole chunks that are new, and of what comes of them all that will not change."""
        shape = self.chain.shape
        while (kept.chunks + 1) * shape.chunk <= heard:
            first = kept.chunks * shape.chunk
            part = cut(pieces, begins, first, first + shape.chunk, mirrored=False)
            source = kept.fronts[kept.front] if kept.chunks else self.chain.start
            target = kept.fronts[1 - kept.front]
            self.lane.take_in(part, source, target, self._rows(kept))
            kept.front = 1 - kept.front
            kept.chunks += 1
        count = kept.chunks * shape.features
        new = max(0, count - shape.ahead) - kept.encoded
        if new > 0:
            fresh = self._encode(kept, count, new)
            before, after = kept.memories[kept.memory], kept.memories[1 - kept.memory]
            self.lane.append(before, kept.encoded, fresh, after)
            kept.memory = 1 - kept.memory
            kept.encoded += new

    def _end(self, kept: Grown, pieces: Audio, begins: int, heard: int) -> tuple[Memory, int]:
        """The memory of the stream as if it ended here; the stream itself stays as it is."""
        shape, lane = self.chain.shape, self.lane
        count = kept.chunks * shape.features
        first = kept.chunks * shape.chunk
        if heard > first:
            part = cut(pieces, begins, first, heard, mirrored=False)
            source = kept.fronts[kept.front] if kept.chunks else self.chain.start
            lane.take_in(part, source, lane.fronts[0], self._rows(kept))
            count += shape.features
        elif heard < first:
            # The segment was cut before what was heard: the rest is in the next one.
            count = min(count, shape.vectors(heard))
        new = count - kept.encoded
        memory = kept.memories[kept.memory]
        if new <= 0:
            return memory, kept.encoded
        lane.append(memory, kept.encoded, self._encode(kept, count, new), lane.memory)
        return lane.memory, count

    def _rows(self, kept: Grown) -> Buffer:
        """Where the features of the next chunk go."""
        shape = self.chain.shape
        size = (shape.features, shape.encoder_dim)
        return kept.features.view(size, kept.chunks * shape.features * shape.encoder_dim)

    def _encode(self, kept: Grown, count: int, new: int) -> dict[str, Buffer]:
        shape = self.chain.shape
        begin = max(0, kept.encoded - shape.left)
        size = (count - begin, shape.encoder_dim)
        window = kept.features.view(size, begin * shape.encoder_dim)
        first = kept.encoded - begin
        return self.lane.encode(window, range(first, first + new), kept.encoded)

    # -- memory to text

    def _pass(self, decode: Decode, memory: Memory, length: int) -> None:
        fed = decode.feed()
        position = decode.position
        answers = self.lane.decode(fed, position, memory, length)
        logprobs = answers["logprob"].tolist()
        if (error := numbers.refused(logprobs)) is not None:
            raise error
        count = len(fed)
        tokens = answers["next_token"].tolist()
        decode.take(tokens, logprobs, answers["margin"].tolist(), [length] * count)
        if not decode.done:
            self.lane.keep(decode.position, position + count)

    @staticmethod
    def _frames(kept: Grown, tokens: Sequence[int], length: int) -> list[int]:
        """By which vector each token was spoken: when it was first seen after the same text."""
        frames = [length] * len(tokens)
        for place, (token, (before, frame)) in enumerate(zip(tokens, kept.said, strict=False)):
            if token != before:
                break
            frames[place] = min(frame, length)
        return frames

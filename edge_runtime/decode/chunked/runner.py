"""Runs updates of streaming models: the new audio goes in, all that was said so far comes out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.chunked.chain import ChunkChain
from edge_runtime.decode.chunked.lane import ChunkLane
from edge_runtime.decode.chunked.shape import ChunkShape
from edge_runtime.decode.chunked.states import Half, Kept, Text
from edge_runtime.decode.chunked.window import cut
from edge_runtime.decode.mirror import Mirror
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Cost, Hypothesis, Purpose, Update
from edge_runtime.decode.watch import Unwatched, Watch
from edge_runtime.errors import AudioError, DeviceError

Audio = Sequence[NDArray[np.float32]]

WARM = "warm-up"
"""The session of silence that lanes run before anybody comes."""


class ChunkRunner:
    """One lane of a streaming transducer: a batch of updates at a time, from one thread at a time.

    An update names all audio of its segment, as for any model; what of it was heard before stays
    in the stream's state, so that only whole chunks of new audio are run. Where the state is gone
    (another device, no room), it is computed again from the audio, to the same text.
    """

    def __init__(self, chain: ChunkChain, size: Size) -> None:
        self.chain = chain
        self.size = size
        self.lane = ChunkLane(chain, size.rows)
        self.watch: Watch = Unwatched()

    def close(self) -> None:
        """Let go of what was captured, which holds the lane's memory."""
        self.lane.graphs.close()

    def run(self, updates: Sequence[Update], audio: Sequence[Audio]) -> list[Hypothesis]:
        """The hypotheses of `updates`, in their order: all tokens of each segment so far.

        Raises `AudioError` for a batch that is larger than the lane, `DeviceError` for answers
        that are no numbers.
        """
        if len(updates) > self.size.rows:
            raise AudioError(
                f"a batch of {len(updates)} updates does not fit in {self.size.rows} rows"
            )
        if len({_key(update) for update in updates}) < len(updates):
            # Several of one stream: each goes on where the one before it came to.
            pairs = zip(updates, audio, strict=True)
            return [self.run([update], [pieces])[0] for update, pieces in pairs]
        rows = self.lane.rows
        if len(updates) > rows:
            return [
                *self.run(updates[:rows], audio[:rows]),
                *self.run(updates[rows:], audio[rows:]),
            ]
        stream = self.lane.stream
        self.watch.begin(updates)
        waited, began = stream.counters.waits, stream.mark()
        self.watch.stage("encode", began)
        # Always in the same order: another lane may want the same streams.
        order = sorted(range(len(updates)), key=lambda row: _key(updates[row]))
        jobs: dict[int, _Job] = {}
        try:
            for row in order:
                update = updates[row]
                kept = self.chain.states.take(_key(update), update.start)
                scratch = self.lane.scratch[row]
                jobs[row] = _Job(self.chain, update, audio[row], kept, scratch)
            for stage in (_Job.advance, _Job.flush):
                self._run([job for job in jobs.values() if stage(job)])
            ended = stream.mark()
            stream.synchronize()
            self.watch.end(ended)
            cost = Cost(encode=ended.since(began), waits=stream.counters.waits - waited)
            return [jobs[row].hypothesis(cost) for row in range(len(updates))]
        except BaseException:
            for job in jobs.values():
                job.spoilt = True  # what is in its pages is anybody's guess
            raise
        finally:
            for job in jobs.values():
                self._let_go(job)

    def rounds(
        self,
        updates: Sequence[Update],
        audio: Sequence[Audio],
        recalled: Callable[[], bool] = lambda: False,
    ) -> Iterator[dict[int, Hypothesis | DeviceError]]:
        """The same by their row, all at once: they take about as long as each other.

        Where they are `recalled` before they begin, none comes.
        """
        if not recalled():
            yield dict(enumerate(self.run(updates, audio)))

    def warm(self) -> None:
        """Run a chunk and the end of a stream: what is allocated for that serves all others."""
        silence = np.zeros(self.chain.shape.shortest, np.float32)
        # The largest first: no other call needs more memory to work in.
        for rows in sorted({_rounded(n + 1, self.lane.rows) for n in range(self.lane.rows)})[::-1]:
            updates = [
                Update(WARM, -row - 1, Purpose.FINAL, 0, len(silence)) for row in range(rows)
            ]
            self.run(updates, [[silence]] * rows)
        self.lane.graphs.warm = True

    def encoded(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the encoder makes of the last chunk of a sound: a device is known by it."""
        self.run([Update(WARM, 0, Purpose.FINAL, 0, len(samples))], [[samples]])
        lane = self.lane
        told = Mirror(self.chain.device, lane.encoded.shape, lane.encoded.dtype, "proof")
        self.chain.device.copy(lane.encoded, told.host, lane.stream, "proof")
        lane.stream.synchronize()
        return np.array(told.host.host[0])

    def _let_go(self, job: _Job) -> None:
        # An update that may say but one word is to keep the device awake: nothing follows it.
        over = job.update.purpose is Purpose.FINAL or job.update.limit == 1
        if job.spoilt or over:
            self.chain.states.drop(_key(job.update), job.kept)
        else:
            self.chain.states.release(job.kept)

    def _run(self, jobs: Sequence[_Job]) -> None:
        """Run the chunks that jobs have before them, one of each at a time."""
        while due := [job for job in jobs if job.due]:
            self._chunks(due)

    def _chunks(self, jobs: Sequence[_Job]) -> None:
        """One chunk of each; the host waits once, more often only for a burst of tokens."""
        lane, shape = self.lane, self.chain.shape
        rows = _rounded(len(jobs), lane.rows)
        lane.blank.host.host[:rows] = 0
        lane.frames.host.host[:rows] = 0
        moves = []
        for row, job in enumerate(jobs):
            target = lane.audio.view((shape.samples,), row * shape.samples)
            self.chain.device.stage(job.samples(), target, lane.stream)
            lane.blank.host.host[row] = shape.missing(job.next)
            lane.frames.host.host[row] = shape.frames
            moves.append(job.move())
        lane.run(moves, rows)
        self._fill(rows, len(jobs))
        lane.stream.synchronize()
        turn = 0
        while True:
            answers = lane.answers(rows, turn)
            cursors = [job.take(answers, row, shape) for row, job in enumerate(jobs)]
            if min(cursors) >= shape.frames:
                break
            turn = 1 - turn
            lane.again(moves, rows, turn)
            lane.stream.synchronize()
        for job in jobs:
            job.done()

    def _fill(self, rows: int, real: int) -> None:
        samples = self.chain.shape.hop
        before, more = self.lane.padding["samples"]
        self.lane.padding["samples"] = (before + real * samples, more + (rows - real) * samples)


class _Job:
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
        self.spoilt = False
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
            if not math.isfinite(logprobs[step]):
                raise DeviceError(
                    "the device answered with NaN or infinity",
                    "Where it comes again, run `edge-runtime doctor` and restart the server.",
                )
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


def _key(update: Update) -> tuple[str, int]:
    return update.session, update.segment


def _rounded(rows: int, most: int) -> int:
    """The next power of two: few sizes of a batch serve all."""
    return min(most, 1 << (rows - 1).bit_length())

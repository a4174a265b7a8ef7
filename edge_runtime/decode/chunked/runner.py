"""Runs updates of streaming models: the new audio goes in, all that was said so far comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.chunked.chain import ChunkChain
from edge_runtime.decode.chunked.job import Audio, Job
from edge_runtime.decode.chunked.lane import ChunkLane
from edge_runtime.decode.chunked.states import Kept
from edge_runtime.decode.mirror import Mirror
from edge_runtime.decode.round import Round
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Cost, Hypothesis, Purpose, Update
from edge_runtime.decode.watch import Unwatched, Watch
from edge_runtime.errors import AudioError

WARM = "warm-up"
"""The session of silence that lanes run before anybody comes."""


class ChunkRunner:
    """One lane of a streaming transducer: a batch of updates at a time, from one thread at a time.

    An update names all audio of its segment, as for any model; what of it was heard before stays
    in the slot that the update names, so that only whole chunks of new audio are run. Where another
    stream was there meanwhile, it is computed again from the audio, to the same text.
    """

    def __init__(self, chain: ChunkChain, size: Size, slots: Sequence[Kept] = ()) -> None:
        """`slots` belong to all lanes; an update that names none gets the lane's own."""
        self.chain = chain
        self.size = size
        self.slots = slots
        (self._own,) = chain.slots(1, size)
        self.lane = ChunkLane(chain, size.rows)
        self.watch: Watch = Unwatched()

    def close(self) -> None:
        """Let go of what was captured, which holds the lane's memory."""
        self.lane.graphs.close()

    def run(self, updates: Sequence[Update], audio: Sequence[Audio]) -> list[Hypothesis]:
        """The hypotheses of `updates`, in their order: all tokens of each segment so far.

        Those that name no slot are run one after the other. Raises `AudioError` for a batch that is
        larger than the lane, `DeviceError` for answers that are no numbers.
        """
        if len(updates) > self.size.rows:
            raise AudioError(
                f"a batch of {len(updates)} updates does not fit in {self.size.rows} rows"
            )
        if len(updates) > 1 and any(update.slot is None for update in updates):
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
        jobs: list[Job] = []
        try:
            for row, update in enumerate(updates):
                kept = self._own if update.slot is None else self.slots[update.slot]
                kept.open(update)
                scratch = self.lane.scratch[row]
                jobs.append(Job(self.chain, update, audio[row], kept, scratch))
            for stage in (Job.advance, Job.flush):
                self._run([job for job in jobs if stage(job)])
            ended = stream.mark()
            stream.synchronize()
            self.watch.end(ended)
            cost = Cost(encode=ended.since(began), waits=stream.counters.waits - waited)
            found = [job.hypothesis(cost) for job in jobs]
        except BaseException:
            for job in jobs:
                job.kept.close(over=True)  # what is in its pages is anybody's guess
            raise
        for job in jobs:
            # An update that may say but one word is to keep the device awake: nothing follows it.
            update = job.update
            job.kept.close(over=update.purpose is Purpose.FINAL or update.limit == 1)
        return found

    def rounds(
        self,
        updates: Sequence[Update],
        audio: Sequence[Audio],
        recalled: Callable[[], bool] = lambda: False,
    ) -> Iterator[Round]:
        """The same by their row, all at once: they take about as long as each other.

        Where they are `recalled` before they begin, none comes.
        """
        if not recalled():
            yield Round(dict(enumerate(self.run(updates, audio))))

    def warm(self) -> None:
        """Run chunks and the end of a stream: what is allocated for that serves all others."""
        lane, shape = self.lane, self.chain.shape
        # The largest first: no other call needs more memory to work in.
        for rows in sorted({_rounded(n + 1, lane.rows) for n in range(lane.rows)})[::-1]:
            silence = lane.audio.view((rows, shape.samples))
            self.chain.device.stage([], silence, lane.stream)
            lane.blank.host.host[:rows] = 0
            lane.frames.host.host[:rows] = shape.frames
            lane.run(lane.scratch[:rows], rows)
            lane.stream.synchronize()
        ending = np.zeros(shape.shortest, np.float32)
        self.run([Update(WARM, 0, Purpose.FINAL, 0, len(ending))], [[ending]])
        lane.graphs.warm = True

    def encoded(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the encoder makes of the last chunk of a sound: a device is known by it."""
        self.run([Update(WARM, 0, Purpose.FINAL, 0, len(samples))], [[samples]])
        lane = self.lane
        told = Mirror(self.chain.device, lane.encoded.shape, lane.encoded.dtype, "proof")
        self.chain.device.copy(lane.encoded, told.host, lane.stream, "proof")
        lane.stream.synchronize()
        return np.array(told.host.host[0])

    def _run(self, jobs: Sequence[Job]) -> None:
        """Run the chunks that jobs have before them, one of each at a time."""
        while due := [job for job in jobs if job.due]:
            self._chunks(due)

    def _chunks(self, jobs: Sequence[Job]) -> None:
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


def _rounded(rows: int, most: int) -> int:
    """The next power of two: few sizes of a batch serve all."""
    return min(most, 1 << (rows - 1).bit_length())

"""The ring that a stream's audio is written into once and read from by absolute sample index."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import AudioError

Samples = NDArray[np.float32]

_NOWHERE: Samples = np.empty(0, np.float32)


class Ring:
    """The newest `capacity` samples of a stream: float32, in one memory, one writing thread.

    Samples are named by their absolute index since the stream began. Any thread may
    read: a write announces what it will overwrite before it does, and `read` looks
    again after copying, so that samples under overwriting are never handed out.
    """

    def __init__(self, memory: int | Samples, claim: Callable[[], Samples] | None = None) -> None:
        """A capacity in samples, or a one-dimensional float32 array to live in (pinned memory).

        With `claim`, memory of that capacity is what it gives at the first write, which raises
        what it raises. Raises `AudioError` for an empty or unsuitable array.
        """
        self._claim = claim
        if isinstance(memory, int):
            self.capacity = memory
            self._memory = _NOWHERE if claim else _suitable(np.zeros(memory, np.float32))
        else:
            self.capacity = int(memory.size)
            self._memory = _suitable(memory)
        self._written = 0
        self._claimed = 0

    @property
    def written(self) -> int:
        """Samples ever written: the index that the next one gets."""
        return self._written

    @property
    def oldest(self) -> int:
        """The first index that can still be read (equal to `written` when there is none)."""
        return max(0, self._claimed - self.capacity)

    def write(self, samples: Samples) -> None:
        """Append float32 samples (n,); of more than `capacity` only the newest stay."""
        count = len(samples)
        if self._claim is not None and count and not self._memory.size:
            self._memory = _suitable(self._claim())
        end = self._written + count
        self._claimed = end
        kept = samples[max(0, count - self.capacity) :]
        done = 0
        for offset, length in self._spans(end - len(kept), end):
            self._memory[offset : offset + length] = kept[done : done + length]
            done += length
        self._written = end

    def read(self, start: int, end: int, out: Samples | None = None) -> Samples:
        """A copy of the samples [start, end) as float32 (end - start,), in `out` when given.

        Raises `AudioError` when some are not written yet, or not there any more.
        """
        self._check(start, end)
        copy = np.empty(end - start, np.float32) if out is None else out
        done = 0
        for offset, length in self._spans(start, end):
            copy[done : done + length] = self._memory[offset : offset + length]
            done += length
        self._check(start, end)
        return copy

    def spans(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        """Where [start, end) lies in the memory: at most two (offset, length), two at the wrap.

        For copies that do not go through the host; ask `holds(start)` once they are over.
        Raises like `read`.
        """
        self._check(start, end)
        return self._spans(start, end)

    def pieces(self, start: int, end: int) -> tuple[Samples, ...]:
        """The same as views of the memory, not copied; ask `holds(start)` after using them."""
        return tuple(self._memory[at : at + length] for at, length in self.spans(start, end))

    def holds(self, start: int) -> bool:
        """Whether sample `start`, and so each later one, has not been overwritten."""
        return start >= self.oldest

    def clear(self) -> None:
        """Begin again at index 0, for a new stream; nobody may be reading."""
        self._written = self._claimed = 0

    def release(self) -> Samples | None:
        """Give up the memory that was claimed, if it was: nothing can be read any more."""
        if not self._memory.size:
            return None
        memory, self._memory = self._memory, _NOWHERE
        self._claimed = self._written + self.capacity
        return memory

    def _spans(self, start: int, end: int) -> tuple[tuple[int, int], ...]:
        if start == end:
            return ()
        offset = start % self.capacity
        first = min(end - start, self.capacity - offset)
        if first == end - start:
            return ((offset, first),)
        return ((offset, first), (0, end - start - first))

    def _check(self, start: int, end: int) -> None:
        if not 0 <= start <= end:
            raise AudioError(f"samples {start} to {end} are no range")
        if end > self._written:
            raise AudioError(f"samples up to {end} are not written yet ({self._written} are)")
        if start < self.oldest:
            raise AudioError(
                f"samples from {start} on are overwritten (the oldest is {self.oldest})",
                "Read sooner, or make the ring larger.",
            )


def _suitable(array: Samples) -> Samples:
    if array.ndim != 1 or array.dtype != np.float32 or not array.size:
        raise AudioError(f"a ring cannot live in {array.dtype} of shape {array.shape}")
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise AudioError("a ring needs contiguous memory that can be written")
    return array

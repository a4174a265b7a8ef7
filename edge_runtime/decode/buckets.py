"""The sizes that shapes are rounded up to, so that few graphs serve all updates."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True)
class Buckets:
    """Ascending sizes of a batch (rows), of audio (samples) and of tokens in a pass (queries).

    Each of the three methods gives the least size that is enough, or `size` itself
    where none is: a device that takes every shape as it comes has no sizes at all.
    """

    row_sizes: tuple[int, ...] = ()
    sample_sizes: tuple[int, ...] = ()
    query_sizes: tuple[int, ...] = ()

    def rows(self, size: int) -> int:
        return _least(self.row_sizes, size)

    def samples(self, size: int) -> int:
        return _least(self.sample_sizes, size)

    def queries(self, size: int) -> int:
        return _least(self.query_sizes, size)


def _least(sizes: tuple[int, ...], size: int) -> int:
    place = bisect_left(sizes, size)
    return sizes[place] if place < len(sizes) else size

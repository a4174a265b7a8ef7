"""Which samples a chunk of a stream looks at, as pieces of the audio that there is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]


def cut(
    pieces: Sequence[Samples], begins: int, first: int, last: int, *, mirrored: bool
) -> list[Samples]:
    """The samples [first, last) of a stream, without the zeros that may follow.

    `pieces` follow each other and begin at sample `begins` of the stream. Before sample 0 lies the
    mirror image of what follows it, or zeros; so do zeros where audio is lost.
    """
    found: list[Samples] = []
    if first < 0:
        found.append(_before(pieces, begins, min(-first, last - first), mirrored=mirrored))
        first = 0
    if first < begins and first < last:
        found.append(np.zeros(min(begins, last) - first, np.float32))
        first = begins
    return found + _within(pieces, first - begins, last - begins)


def _before(pieces: Sequence[Samples], begins: int, count: int, *, mirrored: bool) -> Samples:
    image = np.zeros(count, np.float32)
    if mirrored and begins <= 0:
        after = _within(pieces, -begins, -begins + count)
        seen = np.concatenate(after)[::-1] if after else image[:0]
        image[count - len(seen) :] = seen
    return image


def _within(pieces: Sequence[Samples], first: int, last: int) -> list[Samples]:
    found, at = [], 0
    for piece in pieces:
        part = piece[max(0, first - at) : max(0, last - at)]
        if len(part):
            found.append(part)
        at += len(piece)
    return found

"""Where tensors of one piece of memory may begin."""

from __future__ import annotations

ALIGNED = 256
"""Bytes: where tensors may begin on a GPU."""


def aligned(count: int, itemsize: int = 1) -> int:
    """The least number of items, at least `count`, after which another tensor may begin."""
    step = ALIGNED // itemsize
    return -(-count // step) * step

"""Two texts side by side, word by word, as they are judged."""

from __future__ import annotations

from typing import NamedTuple

from edge_runtime import words
from edge_runtime.words import Operation


class Piece(NamedTuple):
    """Words in a row with the same fate: `before` is empty for an insertion, `after` for a loss."""

    operation: Operation
    before: str
    after: str


def diff(before: str, after: str) -> list[Piece]:
    """How one text became the other, both normalised as the gate does."""
    ours, theirs = words.normalised(before), words.normalised(after)
    found: list[Piece] = []
    for step in words.align(ours, theirs):
        old = ours[step.reference] if step.reference >= 0 else ""
        new = theirs[step.hypothesis] if step.hypothesis >= 0 else ""
        if found and found[-1].operation == step.operation:
            last = found.pop()
            old, new = f"{last.before} {old}".strip(), f"{last.after} {new}".strip()
        found.append(Piece(step.operation, old, new))
    return found

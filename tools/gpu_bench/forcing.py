"""Two decoders compared token by token, though one goes another way after a near tie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpu_bench.reference import Clip

Tokens = tuple[int, ...]


class Decoded(Protocol):
    """What a decoder said: text tokens, their margins, whether the end mark was reached."""

    @property
    def tokens(self) -> Tokens: ...
    @property
    def margins(self) -> tuple[float, ...]: ...
    @property
    def ended(self) -> bool: ...


Decode = Callable[[Tokens, Tokens], Decoded]
"""Greedy decode with a forced prefix and a draft to check behind it."""


@dataclass(frozen=True)
class Difference:
    """Where one clip's tokens part; None stands for the end mark."""

    clip: str
    at: int
    wanted: int | None
    found: int | None
    margin: float

    def __str__(self) -> str:
        return f"{self.clip} at {self.at}: {self.found} for {self.wanted}, margin {self.margin:.2g}"


@dataclass
class Comparison:
    """`excused` differences are near ties; `compared` tokens, end marks included."""

    compared: int = 0
    excused: list[Difference] = field(default_factory=list)
    different: list[Difference] = field(default_factory=list)

    def add(self, other: Comparison) -> None:
        self.compared += other.compared
        self.excused += other.excused
        self.different += other.different


def compare(clip: Clip, decode: Decode, near: float) -> Comparison:
    """Hold a decoder against a clip's tokens, each after the clip's own tokens before it.

    The tokens are its draft; after a difference the decode is forced to the clip's token and
    goes on. A difference is excused where the clip's margin there, or for the end mark, which
    has none, the decoder's own, is below `near`.
    """
    found = Comparison(compared=len(clip.tokens) + clip.ended)
    prefix = 0
    while True:
        said = decode(clip.tokens[:prefix], clip.tokens[prefix:])
        at = parting(clip.tokens, said.tokens, prefix)
        if at is None and said.ended == clip.ended:
            return found
        if at is None:
            at = len(clip.tokens)
        difference = Difference(
            clip.id,
            at,
            _at(clip.tokens, at),
            _at(said.tokens, at),
            next(iter([*clip.margins[at : at + 1], *said.margins[at : at + 1]]), float("inf")),
        )
        (found.excused if difference.margin < near else found.different).append(difference)
        if at >= len(clip.tokens):
            return found
        prefix = at + 1


def parting(one: Sequence[int], other: Sequence[int], start: int = 0) -> int | None:
    """The first place from `start` on where two lists of tokens differ, in length too."""
    for place in range(start, max(len(one), len(other))):
        if one[place : place + 1] != other[place : place + 1]:
            return place
    return None


def _at(tokens: Sequence[int], place: int) -> int | None:
    return tokens[place] if place < len(tokens) else None


def listed(differences: Iterable[Difference], most: int = 4) -> str:
    """The first of them, for a note."""
    told = [str(each) for each in differences]
    rest = f"; and {len(told) - most} more" if len(told) > most else ""
    return "; ".join(told[:most]) + rest

"""The shape of a decoder pass, and what goes through the tiles."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pass:
    """The shape of a decoder pass: (rows, queries) tokens against `frames` of memory.

    It reads cache `turn` and writes the other. With `steps` the pass goes on by itself
    that many times, each on the token that came before; `queries` is 1 then. `tiled` goes
    through the tiles even where the device has one program for the whole decoder.
    """

    rows: int
    queries: int
    frames: int
    turn: int = 0
    steps: int = 1
    tiled: bool = False

    @property
    def count(self) -> int:
        """Answers of one step."""
        return self.rows * self.queries


@dataclass(frozen=True)
class Tiled:
    """What goes through the tiles though the device has kernels of its own for it.

    `queries` are sizes of passes, `samples` of audio.
    """

    queries: frozenset[int] = frozenset()
    samples: frozenset[int] = frozenset()

"""A model loaded in one precision with one warm lane: what most rows measure on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edge_runtime.audio.ring import Samples
from edge_runtime.config import Computing, Config
from edge_runtime.decode.buckets import Buckets
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Hypothesis, Purpose, Update
from edge_runtime.runtime.load import Loaded, Loader
from edge_runtime.session import longest
from gpu_bench.options import Options

SECONDS = 8
"""The segment that the figures are of."""


@dataclass
class Bed:
    """`loading` and `warming` are the seconds these took."""

    precision: str
    loaded: Loaded
    runner: Runner
    loading: float
    warming: float

    @property
    def device(self) -> Any:
        return self.loaded.device

    @property
    def buckets(self) -> Buckets:
        return self.runner.lane.buckets

    def another(self) -> Runner:
        """One more lane, which takes the ways that the warm one found the quicker."""
        runner = Runner(self.loaded.chain, self.runner.size)
        runner.lane.tiled = self.runner.lane.tiled
        return runner

    def decode(
        self,
        pieces: Sequence[Samples],
        draft: tuple[int, ...] = (),
        forced: tuple[int, ...] = (),
        limit: int = 112,
    ) -> Hypothesis:
        """One update of the audio in these pieces."""
        return decoded(self.runner, pieces, draft, forced, limit)

    def text(self, hypothesis: Hypothesis) -> str:
        return self.loaded.model.vocabulary.text(hypothesis.tokens)


def decoded(
    runner: Runner,
    pieces: Sequence[Samples],
    draft: tuple[int, ...] = (),
    forced: tuple[int, ...] = (),
    limit: int = 112,
) -> Hypothesis:
    """One update on a lane."""
    samples = sum(map(len, pieces))
    update = Update("bench", 0, Purpose.FINAL, 0, samples, draft, forced, limit=limit)
    (found,) = runner.run([update], [list(pieces)])
    return found


def make(options: Options, precision: str, size: Size | None = None, **settings: Any) -> Bed:
    """Load and warm; `settings` are those of `Computing`. Raises what `Loader.load` raises.

    Of the rows of `size`, as many as the engine takes.
    """
    size = size or Size(1, longest(Config()))
    began = time.perf_counter()
    loaded = Loader(
        options.model,
        options.device,
        size,
        least=Size(1, size.samples),
        computing=Computing(precision=precision, **settings),
    ).load()
    there = time.perf_counter()
    runner = Runner(loaded.chain, loaded.size)
    runner.warm()
    loaded.warmed()
    return Bed(precision, loaded, runner, there - began, time.perf_counter() - there)


@contextlib.contextmanager
def changed(owner: Any, name: str, value: object) -> Iterator[None]:
    """An attribute of another value for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)

"""Who is told how a build goes, and the phases of a tile as one fraction."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edge_runtime.engines.build.memory import MemoryPlan


class Watch:
    """Does nothing; override what is of interest."""

    def exporting(self, name: str, done: int, total: int) -> None:
        """Graphs are being made: `done` of `total`."""

    def planned(self, plan: MemoryPlan) -> None:
        """What the build will take, before it begins."""

    def waiting(self) -> None:
        """Another process writes this model: its turn comes first."""

    def found(self, folder: Path) -> None:
        """The engine is there already: nothing is built."""

    def advanced(self, tile: str, done: float) -> None:
        """The build of a tile is so far, from 0 to 1."""


UNWATCHED = Watch()


@dataclass
class _Phase:
    begin: float
    span: float
    steps: int
    done: int = 0

    @property
    def here(self) -> float:
        return self.begin + self.span * self.done / self.steps


@dataclass
class Phases:
    """TensorRT's nested phases: a phase fills the step of its parent that is under way."""

    reached: float = 0.0
    _open: dict[str, _Phase] = field(default_factory=dict)

    def start(self, name: str, parent: str | None, steps: int) -> None:
        above = self._open.get(parent or "", _Phase(0.0, 1.0, 1))
        self._open[name] = _Phase(above.here, above.span / above.steps, max(steps, 1))

    def step(self, name: str, step: int) -> float:
        """The fraction of the whole that is done; never goes back."""
        if phase := self._open.get(name):
            phase.done = min(step + 1, phase.steps)
            self.reached = min(1.0, max(self.reached, phase.here))
        return self.reached

    def finish(self, name: str) -> None:
        self._open.pop(name, None)

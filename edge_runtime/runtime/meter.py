"""What the lanes of a device did, carried into the metrics."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edge_runtime.decode.family import AnyRunner
from edge_runtime.decode.update import Hypothesis
from edge_runtime.device.cuda.base import Driver
from edge_runtime.device.cuda.budget import Budget
from edge_runtime.engines.variant import INT8
from edge_runtime.errors import DeviceError
from edge_runtime.metrics import RuntimeMetrics
from edge_runtime.runtime.load import Loaded

NEAR = {"float32": 1e-3, "float16": 0.1, INT8: 0.1}
"""Margins below which the best token is a matter of rounding, by what is computed in."""


MEMORY_EVERY = 5.0
"""Seconds between two looks at the memory of the device."""


@dataclass(frozen=True)
class _Reading:
    """A lane's own counters as they stood."""

    copied: dict[str, int]
    graphs: tuple[int, int, int]
    padding: dict[str, tuple[int, int]]

    @classmethod
    def of(cls, runner: AnyRunner) -> _Reading:
        lane = runner.lane
        use = lane.graphs.use
        # The lane goes on meanwhile: a copy, or the dict grows under our hands.
        copied = dict(lane.stream.counters.copied)
        return cls(copied, (use.hits, use.misses, use.failed), dict(lane.padding))


class Meter:
    """Counts from where the lanes stand when it is made: after their warm-up."""

    def __init__(
        self, metrics: RuntimeMetrics, loaded: Loaded, runners: Sequence[AnyRunner]
    ) -> None:
        self._metrics = metrics
        self._budget = loaded.budget
        self._model = loaded.served.labels(loaded.name)
        integers = loaded.served.precision == INT8
        self._near = NEAR[INT8 if integers else np.dtype(loaded.chain.dtype).name]
        self._lanes = [(runner, _Reading.of(runner)) for runner in runners]
        self._allocated = 0
        self._driver: Driver | None = getattr(loaded.device, "driver", None)
        self._warm = self._driver.free()[0] if self._driver is not None else 0
        self._weighed = -MEMORY_EVERY

    def look(self) -> None:
        """Count what was done since the last look."""
        for number, (runner, before) in enumerate(self._lanes):
            now = _Reading.of(runner)
            if now == before:
                continue
            self._lanes[number] = (runner, now)
            for kind, size in now.copied.items():
                self._metrics.device.copied(kind, size - before.copied.get(kind, 0))
            grown = (one - other for one, other in zip(now.graphs, before.graphs, strict=True))
            self._metrics.device.graphs(*grown)
            for kind, (real, padding) in now.padding.items():
                earlier, wasted = before.padding[kind]
                self._metrics.device.padded(kind, real - earlier, padding - wasted)
        if self._budget is not None:
            allocated = self._budget.since_warm
            self._metrics.device.allocated(allocated - self._allocated)
            self._allocated = allocated
            self._weigh(self._budget)

    def _weigh(self, budget: Budget) -> None:
        """Tell what is taken and free of the device, now and then: to ask takes a call of it."""
        now = time.monotonic()
        if self._driver is None or now - self._weighed < MEMORY_EVERY:
            return
        self._weighed = now
        with contextlib.suppress(DeviceError):  # of a device that is lost: the next call says so
            free = self._driver.free()[0]
            self._metrics.device.memory(self._model, budget.taken, free, self._warm)

    def update(self, hypothesis: Hypothesis) -> None:
        """Count one that was decoded."""
        update, cost = hypothesis.update, hypothesis.cost
        purpose = update.purpose.name.lower()
        self._metrics.update(purpose, cost)
        ties = sum(margin < self._near for margin in hypothesis.margins)
        self._metrics.device.update(purpose, cost.waits, ties)

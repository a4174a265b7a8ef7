"""What a runtime counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from edge_runtime.metrics.batches import BatchMetrics
    from edge_runtime.metrics.device import DeviceMetrics
    from edge_runtime.metrics.load import LoadMetrics
    from edge_runtime.metrics.metrics import Cost
    from edge_runtime.metrics.models import ModelMetrics
    from edge_runtime.metrics.power import PowerMetrics


class RuntimeMetrics(Protocol):
    """As `Metrics` has it."""

    batches: BatchMetrics
    device: DeviceMetrics
    load: LoadMetrics
    models: ModelMetrics
    power: PowerMetrics

    def update(self, purpose: str, cost: Cost) -> None: ...

    def conflict(self, count: int = 1) -> None: ...

    def overtaken(self, count: int = 1) -> None: ...

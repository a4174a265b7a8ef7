"""What is told of a device's memory, and that a lost one does not stop the counting."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from edge_runtime.device.cuda.budget import Budget
from edge_runtime.errors import DeviceLost
from edge_runtime.metrics import Metrics
from edge_runtime.runtime import meter as room
from edge_runtime.runtime.files import Served
from edge_runtime.runtime.meter import Meter


class Card:
    """A driver of which only the free memory is asked."""

    def __init__(self) -> None:
        self.left = 1000
        self.asked = 0
        self.lost = False

    def free(self) -> tuple[int, int]:
        self.asked += 1
        if self.lost:
            raise DeviceLost("the GPU fell off the bus", "Restart.")
        return self.left, 4000


def test_memory_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(room.time, "monotonic", lambda: now[0])
    card, metrics, budget = Card(), Metrics(), Budget()
    budget.take(250, "device")
    loaded = SimpleNamespace(
        budget=budget,
        name="made-up",
        served=Served("fp16"),
        chain=SimpleNamespace(dtype=np.float16),
        device=SimpleNamespace(driver=card),
    )
    meter = Meter(metrics, loaded, [])  # type: ignore[arg-type]

    def told() -> list[float | None]:
        parts = ("taken", "free", "free_when_warm")
        return [metrics.value("edge_runtime_device_memory_bytes", part=part) for part in parts]

    card.left = 900
    meter.look()
    assert told() == [250, 900, 1000]
    card.left = 800
    now[0] += room.MEMORY_EVERY - 0.1
    meter.look()
    assert told() == [250, 900, 1000]
    assert card.asked == 2
    now[0] += 0.2
    meter.look()
    assert told() == [250, 800, 1000]
    card.lost = True
    now[0] += room.MEMORY_EVERY
    meter.look()
    assert told() == [250, 800, 1000]

"""A model without weights, on devices that stand in for those of a machine with a GPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from edge_runtime import runtime as room
from edge_runtime.audio import FRAME
from edge_runtime.config import Config
from edge_runtime.decode.buckets import Buckets
from edge_runtime.decode.reading import Model
from edge_runtime.decode.tokens import Vocabulary
from edge_runtime.errors import DeviceError
from edge_runtime.runtime import Runtime, lanes, load
from tests.fakes.lanes import SHAPE, FakeDevice, FakeRunner, lanes_of


class Ears:
    """A voice detector that hears how loud it is."""

    broken = False
    room = 1

    def open(self) -> int:
        return 0

    def close(self, slot: int) -> None:
        assert slot == 0

    def hear(self, slots, samples) -> list[list[float]]:
        if self.broken:
            raise DeviceError("the detector failed", "Start again.")
        return [[0.95 if first else 0.02 for first in each[::FRAME]] for each in samples]


@pytest.fixture
def ears() -> Ears:
    return Ears()


@pytest.fixture
def devices() -> dict[str, FakeDevice]:
    return {name: FakeDevice(name) for name in ("tensorrt", "onnx-cuda", "cpu")}


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, ears: Ears, devices: dict[str, FakeDevice]):
    """A runtime on these devices, all candidates unless one is named."""

    def on(self: load.Loader, name: str) -> load.Loaded:
        device = devices[name]
        device.meet("load")
        chain = SimpleNamespace(
            shape=SHAPE,
            device=device,
            dtype="float32",
            rows=device.rows,
            keeps=False,
            buckets=lambda size: Buckets(),
            state=lambda rows, samples: 4 * rows * samples,
        )
        model = Model(SHAPE, Vocabulary(["<unk>", "<s>", "</s>", "\u2581a"]))
        size = device.size or self._size
        why = self.fallback(name)
        return load.Loaded("stand-in", device, chain, model, None, size, why, kind=name)

    def candidates(name: str) -> tuple[str, ...]:
        return tuple(devices) if name == "auto" else (name,)

    runtimes: list[Runtime] = []

    def made(device: str = "auto", config: Config | None = None) -> Runtime:
        runtimes.append(room.Runtime(config or Config(), device=device))
        return runtimes[-1]

    monkeypatch.setattr(load.Loader, "_on", on)
    monkeypatch.setattr(load, "candidates", candidates)
    monkeypatch.setattr(load.Loaded, "ear", lambda self, rows: ears)
    monkeypatch.setattr(lanes, "make_runners", lanes_of(FakeRunner))
    yield made
    for each in runtimes:
        each._turns.scheduler.check_integrity()

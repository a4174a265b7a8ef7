"""Devices that do nothing, fail or get lost, and lanes on them that always say the same."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np

from edge_runtime.decode.round import Round
from edge_runtime.decode.shape import ModelShape
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Cost, Hypothesis
from edge_runtime.device.base import Counters
from edge_runtime.device.onnx import HostBuffer
from edge_runtime.errors import DeviceLost, EdgeRuntimeError

SHAPE = ModelShape(
    decoder_tiles=(1,), decoder_layers=1, width=8, heads=1, padded_head_dim=8, past=128,
    vocabulary=4, begin=1, end=2, tokens_per_second=6.5, kernels=(127, 7, 3), strides=(64, 3, 2),
    audio_seconds=(2.0, 8.0), draft_tokens=(1, 16, 112),
)  # fmt: skip


class FakeDevice:
    """`breaks` says at what it fails: "load", "alloc", "warm" or "run".

    Lanes that run one of the sessions in `held` wait until it is `free`.
    """

    def __init__(self, name: str, lanes: int = 1) -> None:
        self.name = name
        self.lanes = lanes
        self.breaks: dict[str, EdgeRuntimeError] = {}
        self.closed = False
        self.size: Size | None = None
        """The largest batch it takes, where that is less than what is asked for."""
        self.rows = 1
        """The most that it decodes together."""
        self.ran: list[str] = []
        self.batches: list[list[str]] = []
        self.made: list[tuple[tuple[int, ...], str]] = []
        self.held: set[str] = set()
        self.free = threading.Event()

    def alloc(self, shape, dtype, kind="device") -> HostBuffer:
        self.meet("alloc")
        self.made.append((shape, kind))
        return HostBuffer(np.zeros(shape, dtype))

    def meet(self, place: str) -> None:
        if place in self.breaks:
            raise copy.copy(self.breaks[place])  # each time another one, as a device does

    def close(self) -> None:
        assert "run" not in self.breaks, "a lost device is not closed"
        self.closed = True


class FakeRunner:
    """A lane that always says the same."""

    def __init__(self, chain, size) -> None:
        self.chain, self.size, self.slots = chain, size, ()
        self.lane = SimpleNamespace(
            padding={"samples": (0, 0), "queries": (0, 0)},
            stream=SimpleNamespace(counters=Counters()),
            graphs=SimpleNamespace(use=SimpleNamespace(hits=0, misses=0, failed=0)),
        )

    def warm(self) -> None:
        self.chain.device.meet("warm")
        self.lane.stream.counters.copy("audio", 1_000_000)
        self.lane.graphs.use.misses += 9
        self.lane.padding["samples"] = (9, 9)

    def run(self, updates, audio) -> list[Hypothesis]:
        (found,) = self.rounds(updates, audio)
        return list(found.done.values())

    def rounds(self, updates, audio, recalled=lambda: False) -> Iterator[Round]:
        device = self.chain.device
        sessions = [each.session for each in updates]
        if device.held.intersection(sessions):
            for _ in range(500):
                if device.free.wait(0.01):
                    break
                if recalled():
                    return
            assert device.free.is_set()
        device.meet("run")
        device.ran += sessions
        device.batches.append(sessions)
        self.lane.stream.counters.copy("audio", 4 * sum(len(piece) for piece in audio[0]))
        self.lane.stream.counters.copy("results", 24)
        self.lane.graphs.use.hits += 2
        self._fill("samples", 32_000, sum(len(piece) for piece in audio[0]))
        self._fill("queries", 16, 3)
        cost = Cost(waits=3, rows=len(updates))
        yield Round({
            row: Hypothesis(each, (3, 3), (-0.05, -0.1), (5.0, 5e-4), (0, 0), True, 1, cost=cost)
            for row, each in enumerate(updates)
        })  # fmt: skip

    def _fill(self, kind: str, made: int, real: int) -> None:
        before, padding = self.lane.padding[kind]
        self.lane.padding[kind] = (before + real, padding + made - real)


def lanes_of(kind):
    """Makes lanes of that kind, as `make_runners` does."""
    return lambda chain, size, lanes, slots=0: [kind(chain, size) for _ in range(lanes)]


def lost(name: str = "tensorrt") -> DeviceLost:
    return DeviceLost(f"{name} fell off the bus", "Restart the machine.")

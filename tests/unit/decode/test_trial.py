"""Kernels for the whole decoder are used where they answer as the tiles do, and no longer take."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.decode import trial
from edge_runtime.decode.lane import Lane
from edge_runtime.decode.passes import Pass, Tiled
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device.base import Buffer, Call
from edge_runtime.device.onnx import HostStream, OnnxDevice

SIZE = Size(1, 40_000)
Twist = Callable[[Mapping[str, Buffer]], None]


class Together:
    """Embedding and tiles as one program; `twist` changes its answers."""

    def __init__(self, device: OnnxDevice, folder: Path) -> None:
        names = ("embedding", "layers_0_1", "layers_1_3")
        self._programs = [device.load(folder / f"{name}.onnx") for name in names]
        every = [{**each.inputs, **each.outputs} for each in self._programs]
        own = {"hidden", "hidden_next", "align_past", "align_next"}
        known = {name: spec for each in every for name, spec in each.items() if name not in own}
        given = {name for each in self._programs for name in each.outputs}
        self.outputs = {name: spec for name, spec in known.items() if name in given}
        self.inputs = {name: spec for name, spec in known.items() if name not in given}
        self._width = self._programs[0].outputs["hidden"].shape[2]
        self._device = device
        self.calls: list[int] = []
        self.twist: Twist = lambda bound: None

    def bind(self, bindings: Mapping[str, Buffer], stream: HostStream) -> Call:
        rows, queries = bindings["tokens"].shape
        frames = bindings["align"].shape[2]
        hidden = [self._device.alloc((rows, queries, self._width), np.float32) for _ in "abc"]
        shares = self._device.alloc((rows, queries, frames), np.float32)
        calls = []
        for place, program in enumerate(self._programs):
            offered = {**bindings, "align_past": shares, "align_next": shares}
            offered["hidden"] = hidden[max(0, place - 1)]
            offered["hidden_next"] = hidden[place]
            known = {**program.inputs, **program.outputs}
            calls.append(program.bind({n: b for n, b in offered.items() if n in known}, stream))

        def call() -> None:
            for each in calls:
                each()
            self.calls.append(queries)
            self.twist(bindings)

        return call


class Alone:
    """The encoder's tile again; `twist` changes its answers."""

    def __init__(self, device: OnnxDevice, folder: Path) -> None:
        self._program = device.load(folder / "encoder.onnx")
        self.inputs, self.outputs = self._program.inputs, self._program.outputs
        self.calls: list[int] = []
        self.twist: Twist = lambda bound: None

    def bind(self, bindings: Mapping[str, Buffer], stream: HostStream) -> Call:
        inner = self._program.bind(bindings, stream)

        def call() -> None:
            inner()
            self.calls.append(bindings["audio"].shape[1])
            self.twist(bindings)

        return call


class Rounding(OnnxDevice):
    """The CPU as if it were a GPU with kernels of its own."""

    rounds = True

    def encoder(self, folder: Path) -> Alone:
        return Alone(self, folder)

    def decoder(self, folder: Path) -> Together:
        return Together(self, folder)


@pytest.fixture
def runner(made_up, made_up_store) -> Runner:
    chain = Chain(Rounding(), made_up_store.graphs(made_up, "fp32"))
    return Runner(chain, SIZE)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, bool], float]:
    """How long a pass of so many tokens, or so many samples, takes; else a second.

    Through the tiles or not.
    """
    times: dict[tuple[int, bool], float] = {}

    def seconds(lane: Lane, run: Any) -> float:
        if isinstance(run.args[0], Pass):
            return times.get((run.args[0].queries, run.args[0].tiled), 1.0)
        return times.get(run.args[1:], 1.0)

    monkeypatch.setattr(trial, "_seconds", seconds)
    return times


def tokens(runner: Runner) -> tuple[int, ...]:
    noise = np.random.default_rng(5).normal(0, 0.1, 30_000).astype(np.float32)
    update = Update("test", 0, Purpose.FINAL, 0, 30_000, limit=9)
    return runner.run([update], [[noise]])[0].tokens


def test_what_answers_like_the_tiles_is_used(runner: Runner, quick, caplog) -> None:
    program, encoder = runner.chain.own_decoder, runner.chain.own_encoder
    with caplog.at_level(logging.INFO, trial.__name__):
        runner.warm()
    assert runner.lane.tiled == Tiled()
    assert "to encode 2.5 s: 1000.000 ms through the tiles" in caplog.text
    assert "a pass of 16: 1000.000 ms through the tiles, 1000.000 ms in kernels" in caplog.text
    before, encoded = len(program.calls), len(encoder.calls)
    found = tokens(runner)
    assert len(program.calls) - before == len(found) == 9
    assert len(encoder.calls) - encoded == 1
    # And it says what the tiles say.
    runner.lane.tiled = Tiled(frozenset((1, 16)), frozenset(runner.lane.buckets.sample_sizes))
    runner.lane.graphs.close()
    assert tokens(runner) == found
    assert len(program.calls) - before == 9
    assert len(encoder.calls) - encoded == 1


def test_a_size_that_takes_longer_goes_through_the_tiles(runner: Runner, quick) -> None:
    size = runner.lane.buckets.sample_sizes[0]
    quick[16, True] = quick[size, True] = 0.5
    runner.warm()
    assert runner.lane.tiled == Tiled(frozenset({16}), frozenset({size}))


def test_time_is_taken_by_the_device(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.warm()
    shape = trial.Pass(1, 1, 40)
    assert 0 < trial._seconds(runner.lane, partial(runner.lane.decode, shape)) < 1


def wrong_token(bound: Mapping[str, Buffer]) -> None:
    bound["next_token"].host[...] += 1


def unsure(bound: Mapping[str, Buffer]) -> None:
    bound["logprob"].host[...] -= 0.1


def no_number(bound: Mapping[str, Buffer]) -> None:
    bound["margin"].host[...] = np.nan


def wrong_at_last(bound: Mapping[str, Buffer]) -> None:
    if bound["tokens"].shape[1] == 16:
        bound["logprob"].host[0, 15] -= 1


@pytest.mark.parametrize(
    ("twist", "place"),
    [
        (wrong_token, "0 of 1"),
        (unsure, "0 of 1"),
        (no_number, "0 of 1"),
        (wrong_at_last, "15 of 16"),
    ],
)
def test_what_answers_otherwise_is_not_used(
    runner: Runner, quick, caplog, twist: Twist, place: str
) -> None:
    program = runner.chain.own_decoder
    wanted = tokens(runner)
    program.twist = twist
    with caplog.at_level(logging.ERROR):
        runner.warm()
    (said,) = [record.getMessage() for record in caplog.records]
    assert f"kernels for the decoder are not used: at token {place} the tiles say" in said
    assert runner.lane.tiled == Tiled(frozenset({1, 16}))
    program.calls.clear()
    assert tokens(runner) == wanted
    assert program.calls == []


def no_memory(bound: Mapping[str, Buffer]) -> None:
    bound["memory_v_1"].host[...] = 0


def test_an_encoder_that_answers_otherwise_is_not_used(runner: Runner, quick, caplog) -> None:
    program = runner.chain.own_encoder
    wanted = tokens(runner)
    program.twist = no_memory
    with caplog.at_level(logging.ERROR):
        runner.warm()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("kernels for the encoder are not used: at token ")
    assert runner.lane.tiled == Tiled(samples=frozenset(runner.lane.buckets.sample_sizes))
    program.calls.clear()
    assert tokens(runner) == wanted
    assert program.calls == []


def other_rows(bound: Mapping[str, Buffer]) -> None:
    """Right for one row, wrong for the second."""
    for name in ("memory_v_1", "logprob"):
        if name in bound and bound[name].shape[0] > 1:
            bound[name].host[1] = -99.0


@pytest.mark.parametrize("part", ["own_encoder", "own_decoder"])
def test_what_mixes_up_the_rows_of_a_batch_is_not_used(
    made_up, made_up_store, quick, caplog, part: str
) -> None:
    device = Rounding()
    device.batches = True
    runner = Runner(Chain(device, made_up_store.graphs(made_up, "fp32")), Size(2, 40_000))
    getattr(runner.chain, part).twist = other_rows
    with caplog.at_level(logging.ERROR):
        runner.warm()
    (said,) = [record.getMessage() for record in caplog.records]
    assert f"kernels for the {part.removeprefix('own_')} are not used" in said
    sizes = runner.lane.buckets
    wanted = (
        Tiled(samples=frozenset(sizes.sample_sizes))
        if part == "own_encoder"
        else Tiled(frozenset(sizes.query_sizes))
    )
    assert runner.lane.tiled == wanted


def test_files_are_read_after_the_same_trial(made_up, made_up_store, quick) -> None:
    runner = Runner(Chain(Rounding(), made_up_store.graphs(made_up, "fp32")), SIZE)
    quick[16, True] = 0.5
    runner.lane.choose()
    assert runner.lane.tiled == Tiled(frozenset({16}))
    assert not runner.lane.graphs.warm


def test_rounding_is_no_other_answer() -> None:
    wanted = {
        "next_token": np.array([3.0, 4.0]), "logprob": np.array([-0.5, -9.0]),
        "margin": np.array([0.005, 8.0]), "frame": np.array([1.0, 2.0]),
    }  # fmt: skip
    near = {**wanted, "next_token": np.array([9.0, 4.0]), "logprob": wanted["logprob"] + 0.009}
    assert trial._same("decoder", wanted, near, 4)
    assert not trial._same("decoder", wanted, {**wanted, "next_token": np.array([3.0, 9.0])}, 2)
    assert trial._same("decoder", wanted, {**wanted, "margin": np.array([0.1, 8.5])}, 2)
    assert not trial._same("decoder", wanted, {**wanted, "margin": np.array([0.1, 8.5])}, 4)

"""Encoder and decoder in kernels of our own on a real GPU, against the tiles on the CPU."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from edge_runtime.device.base import Buffer, Device, Program
from edge_runtime.device.cuda import open_driver, present
from edge_runtime.device.cuda.budget import Budget
from edge_runtime.device.cuda.device import CudaDevice
from edge_runtime.device.encode import EncodeProgram
from edge_runtime.device.encode import spec as encode_spec
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.device.step import StepProgram
from edge_runtime.device.step import spec as step_spec
from edge_runtime.engines.export import moonshine
from edge_runtime.engines.export.moonshine import encode, step
from edge_runtime.engines.recipe import MoonshineRecipe, load_recipe
from edge_runtime.engines.weights.base import moonshine_shapes

Arrays = dict[str, np.ndarray]

ANSWERS = {"next_token": np.int64, "frame": np.int64, "logprob": np.float32, "margin": np.float32}
NEAR = {np.dtype(np.float32): 5e-3, np.dtype(np.float16): 0.15}
"""What rounding may change in a logit, by the kernels' floating type."""
SAME = {np.dtype(np.float32): 1e-4, np.dtype(np.float16): 0.03}
"""The same where both are the kernels: products may be added up in another order."""


@pytest.fixture(scope="module")
def recipe() -> MoonshineRecipe:
    """The real model's sizes, with fewer layers and words."""
    real = load_recipe("moonshine-tiny-en")
    assert isinstance(real, MoonshineRecipe)
    small = msgspec.structs.replace(
        real.architecture, encoder_layers=2, decoder_layers=3, vocabulary=1024
    )
    return msgspec.structs.replace(
        real, architecture=small, decoder_tiles=(3,), alignment_heads=((0, 1), (2, 0), (2, 5))
    )


@pytest.fixture(scope="module")
def weights(recipe: MoonshineRecipe) -> Arrays:
    """At random, exact in float16: both sides compute from the same ones."""
    random = np.random.default_rng(2)
    made = {}
    for name, shape in moonshine_shapes(recipe.architecture).items():
        spread = 0.1 if "norm" in name else 2.0 / np.sqrt(np.prod(shape[1:]))
        drawn = random.normal(1.0 if "norm" in name else 0.0, spread, shape)
        made[name] = drawn.astype(np.float16).astype(np.float32)
    return made


@pytest.fixture(scope="module")
def folder(recipe: MoonshineRecipe, weights: Arrays, tmp_path_factory: Any) -> Path:
    """The tiles for a CPU; the encoder's weights for the kernels."""
    path: Path = tmp_path_factory.mktemp("tiles")
    for name, write in moonshine.tiles(recipe, weights, np.float32).items():
        write().save(path / f"{name}.onnx")
    encode.write(recipe, weights, path)
    return path


@pytest.fixture(scope="module")
def device() -> Iterator[CudaDevice]:
    if not present():
        pytest.skip("no NVIDIA GPU on this machine")
    for module, package in (
        ("cuda", "cuda-bindings"),
        ("cuda.bindings.nvrtc", "nvidia-cuda-nvrtc"),
    ):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{package} is not installed")
    made = CudaDevice(open_driver(), budget=Budget())
    yield made
    made.budget.check_integrity()
    made.close()


class Side:
    """A device with programs that are run one after the other on arrays of the host."""

    def __init__(
        self, device: Device | CudaDevice, programs: Sequence[Program], dtype: Any
    ) -> None:
        self.device, self.programs, self.dtype = device, programs, np.dtype(dtype)

    def __call__(self, given: Arrays, asked: dict[str, tuple[tuple[int, ...], Any]]) -> Arrays:
        """The outputs that are `asked` for; those that follow each other lie in one piece."""
        stream = self.device.stream()
        bound = {name: self._put(array, stream) for name, array in given.items()}
        bound |= self._places(asked)
        for program in self.programs:
            known = {**program.inputs, **program.outputs}
            program.bind({n: b for n, b in bound.items() if n in known}, stream)()
        stream.synchronize()
        return {name: self._get(bound[name], stream) for name in asked}

    def _put(self, array: np.ndarray, stream: Any) -> Buffer:
        array = array.astype(self.dtype) if array.dtype == np.float16 else array
        there = self.device.alloc(array.shape, array.dtype)
        host = self.device.alloc(array.shape, array.dtype, "pinned")
        host.host[...] = array
        self.device.copy(host, there, stream, "up")
        stream.synchronize()
        return there

    def _get(self, there: Buffer, stream: Any) -> np.ndarray:
        host = self.device.alloc(there.shape, there.dtype, "pinned")
        self.device.copy(there, host, stream, "down")
        stream.synchronize()
        return np.array(host.host)

    def _places(self, asked: dict[str, tuple[tuple[int, ...], Any]]) -> dict[str, Buffer]:
        places: dict[str, Buffer] = {}
        for dtype in {np.dtype(dtype) for _, dtype in asked.values()}:
            mine = {name: shape for name, (shape, of) in asked.items() if np.dtype(of) == dtype}
            step = 256 // dtype.itemsize
            sizes = [-(-math.prod(shape) // step) * step for shape in mine.values()]
            whole = self.device.alloc((sum(sizes),), dtype)
            at = 0
            for (name, shape), size in zip(mine.items(), sizes, strict=True):
                places[name], at = whole.view(shape, at), at + size
        return places


@pytest.fixture(scope="module")
def tiles(folder: Path) -> Side:
    made = OnnxDevice()
    names = ("embedding", "layers_0_3")
    return Side(made, [made.load(folder / f"{name}.onnx") for name in names], np.float32)


@pytest.fixture(params=[np.float32, np.float16], ids=["fp32", "fp16"])
def decoder(
    request: Any, device: CudaDevice, recipe: MoonshineRecipe, weights: Arrays, tmp_path: Path
) -> Side:
    step.write(recipe, weights, tmp_path, request.param)
    return Side(device, [StepProgram(device, tmp_path / step_spec.FILE)], request.param)


class Decoding:
    """What decoder passes are given: rows with a past and a memory of their own."""

    def __init__(self, recipe: MoonshineRecipe, weights: Arrays, frames: Sequence[int]) -> None:
        self.dims = dims = recipe.architecture
        self.frames = list(frames)
        self.positions = [3 + 17 * row for row in range(len(frames))]
        random = np.random.default_rng(3)
        self.table = weights["model.decoder.embed_tokens.weight"].astype(np.float16)
        self.tokens = random.integers(3, dims.vocabulary, (len(frames), 32))
        self.memory = self._caches(random, max(frames))
        self.past = self._caches(random, dims.past)

    def _caches(self, random: np.random.Generator, length: int) -> list[Arrays]:
        """Of every row: keys and values of the layers, (heads, length, head_dim), float16."""
        shape = (self.dims.heads, length, self.dims.padded_head_dim)
        names = [f"{kind}_{n}" for kind in "kv" for n in range(self.dims.decoder_layers)]
        return [
            {name: random.normal(0, 0.5, shape).astype(np.float16) for name in names}
            for _ in self.frames
        ]

    def run(
        self,
        side: Side,
        rows: Sequence[int],
        queries: int,
        room: int,
        *,
        past: Sequence[Arrays] | None = None,
        done: int = 0,
    ) -> Arrays:
        """A pass of these rows, with `room` frames of memory, `done` tokens after the first."""
        dims, count = self.dims, len(rows)
        past = [self.past[row] for row in rows] if past is None else past
        given: Arrays = {
            "tokens": self.tokens[list(rows), done : done + queries],
            "position": np.array([self.positions[row] + done for row in rows]),
            "memory_length": np.array([self.frames[row] for row in rows]),
            "table": self.table,
        }
        for name in self.past[0]:
            memory = np.zeros((count, dims.heads, room, dims.padded_head_dim), np.float16)
            for place, row in enumerate(rows):
                kept = self.memory[row][name][:, : self.frames[row]]
                memory[place, :, : self.frames[row]] = kept
            given[f"memory_{name}"] = memory
            given[f"past_{name}"] = np.stack([each[name] for each in past])
        size, dtype = (count, queries), side.dtype
        asked: dict[str, tuple[tuple[int, ...], Any]] = {n: (size, t) for n, t in ANSWERS.items()}
        asked["align"] = ((*size, room), np.float32)
        asked["position_next"] = ((count,), np.int64)
        asked["hidden"] = ((*size, dims.width), dtype)
        for name in self.past[0]:
            asked[f"new_{name}"] = (given[f"past_{name}"].shape, dtype)
        return side(given, asked)

    def caches(self, answered: Arrays, row: int) -> Arrays:
        return {name: answered[f"new_{name}"][row] for name in self.past[0]}

    def rows_until(self, row: int, queries: int) -> int:
        """How many rows of a cache hold something after a pass."""
        return self.positions[row] + queries


@pytest.fixture(scope="module")
def decoding(recipe: MoonshineRecipe, weights: Arrays) -> Decoding:
    return Decoding(recipe, weights, (61, 100, 37))


def assert_answers(wanted: Arrays, given: Arrays, near: float) -> None:
    """The same tokens, where the second best is not as good; close numbers."""
    for name in ("logprob", "margin"):
        assert np.abs(wanted[name] - given[name]).max() < near, name
    sure = wanted["margin"] > near
    assert sure.any()
    assert (wanted["next_token"] == given["next_token"])[sure].all()
    room = min(wanted["align"].shape[-1], given["align"].shape[-1])
    assert np.abs(wanted["align"][..., :room] - given["align"][..., :room]).max() < near / 3
    assert (wanted["position_next"] == given["position_next"]).all()


def part(answered: Arrays, row: int) -> Arrays:
    return {name: each[row : row + 1] for name, each in answered.items()}


@pytest.mark.parametrize("queries", [1, 8, 32])
def test_the_decoder_answers_as_the_tiles_do(
    tiles: Side, decoder: Side, decoding: Decoding, queries: int
) -> None:
    rows = range(3)
    wanted = decoding.run(tiles, rows, queries, 100)
    given = decoding.run(decoder, rows, queries, 100)
    near = NEAR[decoder.dtype]
    assert_answers(wanted, given, near)
    for row in rows:
        until = decoding.rows_until(row, queries)
        for name in decoding.past[0]:
            one, other = (each[f"new_{name}"][row, :, :until] for each in (wanted, given))
            assert np.abs(one - other.astype(np.float32)).max() < near, name


@pytest.mark.parametrize("queries", [1, 16])
def test_a_batch_answers_as_its_rows_alone(decoder: Side, decoding: Decoding, queries: int) -> None:
    together = decoding.run(decoder, range(3), queries, 112)
    for row in range(3):
        alone = decoding.run(decoder, [row], queries, 112)
        assert_answers(alone, part(together, row), SAME[decoder.dtype])


@pytest.mark.parametrize("queries", [1, 16])
def test_room_behind_the_memory_changes_nothing(
    decoder: Side, decoding: Decoding, queries: int
) -> None:
    exact = decoding.run(decoder, [0], queries, 61)
    roomy = decoding.run(decoder, [0], queries, 336)
    assert_answers(exact, roomy, SAME[decoder.dtype])
    assert not roomy["align"][..., 61:].any()


def test_a_check_of_eight_answers_as_eight_steps(decoder: Side, decoding: Decoding) -> None:
    rows = [0, 1]
    check = decoding.run(decoder, rows, 8, 100)
    past = [decoding.past[row] for row in rows]
    for place in range(8):
        one = decoding.run(decoder, rows, 1, 100, past=past, done=place)
        past = [decoding.caches(one, row) for row in range(len(rows))]
        there = {name: check[name][:, place : place + 1] for name in (*ANSWERS, "align")}
        there["position_next"] = check["position_next"] - 7 + place
        assert_answers(one, there, SAME[decoder.dtype])


@pytest.fixture(scope="module")
def encoders(device: CudaDevice, folder: Path) -> tuple[Side, Side]:
    """The tile on the CPU, the kernels on the GPU."""
    host = OnnxDevice()
    own = EncodeProgram(device, folder / encode_spec.FILE)
    tile = Side(host, [host.load(folder / "encoder.onnx")], np.float32)
    return tile, Side(device, [own], np.float16)


class Encoding:
    """Noise of several lengths, and what an encoder makes of it."""

    LENGTHS = (16_000, 31_999, 20_000)

    def __init__(self, recipe: MoonshineRecipe) -> None:
        self.dims, self.shape = recipe.architecture, moonshine.shape(recipe)
        random = np.random.default_rng(5)
        self.noise = [random.normal(0, 0.1, n).astype(np.float32) for n in self.LENGTHS]

    def run(self, side: Side, rows: Sequence[int], room: int) -> list[np.ndarray]:
        """Of each row: (2·layers, heads, its frames, head_dim)."""
        audio = np.zeros((len(rows), room), np.float32)
        for place, row in enumerate(rows):
            audio[place, : self.LENGTHS[row]] = self.noise[row]
        size = (len(rows), self.dims.heads, self.shape.frames(room), self.dims.padded_head_dim)
        names = [f"memory_{kind}_{n}" for kind in "kv" for n in range(self.dims.decoder_layers)]
        asked: dict[str, tuple[tuple[int, ...], Any]] = dict.fromkeys(names, (size, side.dtype))
        asked["memory_length"] = ((len(rows),), np.int64)
        given = {"audio": audio, "length": np.array([self.LENGTHS[row] for row in rows])}
        found = side(given, asked)
        frames = [self.shape.frames(self.LENGTHS[row]) for row in rows]
        assert found["memory_length"].tolist() == frames
        return [
            np.stack([found[name][place, :, : frames[place]] for name in names]).astype(np.float64)
            for place in range(len(rows))
        ]


@pytest.fixture(scope="module")
def encoding(recipe: MoonshineRecipe) -> Encoding:
    return Encoding(recipe)


def apart(wanted: np.ndarray, given: np.ndarray) -> float:
    """The largest of the tensors' relative errors."""
    pairs = zip(wanted, given, strict=True)
    return max(float(np.linalg.norm(one - other) / np.linalg.norm(one)) for one, other in pairs)


def test_the_encoder_gives_what_the_tile_does(
    encoders: tuple[Side, Side], encoding: Encoding
) -> None:
    tile, own = (encoding.run(side, range(3), 32_000) for side in encoders)
    for wanted, given in zip(tile, own, strict=True):
        assert apart(wanted, given) < 0.02


def test_an_encoded_batch_is_its_rows_alone_and_padding_changes_nothing(
    encoders: tuple[Side, Side], encoding: Encoding
) -> None:
    _, own = encoders
    together = encoding.run(own, range(3), 48_000)
    for row in range(3):
        (alone,) = encoding.run(own, [row], 48_000)
        (exact,) = encoding.run(own, [row], encoding.LENGTHS[row])
        assert apart(alone, together[row]) < 2e-3
        assert apart(exact, alone) < 2e-3

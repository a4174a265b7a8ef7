"""What the encoder's kernels are given says what its tile says: here, in numpy and float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from edge_runtime.device.encode.spec import FILE, EncodeSpec, expected
from edge_runtime.device.kernels import archive
from edge_runtime.engines import weights as readers
from edge_runtime.engines.export.moonshine import encode

SAMPLES, LENGTH = 24_000, 20_000
Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.fixture
def stored(made_up, made_up_store, tmp_path: Path) -> tuple[EncodeSpec, Arrays]:
    arrays = readers.read(made_up, made_up_store.weights(made_up))
    encode.write(made_up, arrays, tmp_path)
    return archive.load(tmp_path / FILE, EncodeSpec)


def test_the_kernels_would_say_what_the_tile_says(
    stored: tuple[EncodeSpec, Arrays], made_up, made_up_store
) -> None:
    spec, weights = stored
    archive.check(Path(FILE), weights, expected(spec))
    wide = {name: array.astype(np.float64) for name, array in weights.items()}
    wave = np.random.default_rng(3).normal(0, 0.1, SAMPLES).astype(np.float32)
    wave[LENGTH:] = 0
    folder = made_up_store.graphs(made_up, "fp32")
    session = ort.InferenceSession(str(folder / "encoder.onnx"))
    given = {"audio": wave[None], "length": np.array([LENGTH])}
    names = [each.name for each in session.get_outputs()]
    wanted = dict(zip(names, session.run(None, given), strict=True))
    length = int(wanted["memory_length"][0])
    assert length == spec.frames(LENGTH)[2]
    found = _memory(spec, wide, wave)
    for place, name in enumerate(
        f"memory_{kind}_{layer}" for kind in "kv" for layer in range(spec.memories)
    ):
        there = wanted[name][0, :, :length]
        apart = np.linalg.norm(found[place][:, :length] - there) / np.linalg.norm(there)
        # The matrices are in float16.
        assert apart < 2e-3, name


def _memory(spec: EncodeSpec, w: Arrays, wave: np.ndarray) -> np.ndarray:
    """(2·memories, heads, frames, head_dim), by the steps that encode.cu takes."""
    x = _front_end(spec, w, wave)
    last, valid = x.shape[0], spec.frames(LENGTH)[2]
    for layer in range(spec.layers):
        at = {name: w[f"{layer}.{name}"] for name in ("mix_norm", "qkv", "mix_out", "mlp_norm",
              "fc1", "fc1_bias", "fc2", "fc2_bias")}  # fmt: skip
        q, k, v = (_normed(spec, x) * at["mix_norm"] @ at["qkv"]).reshape(
            last, 3, spec.heads, spec.head_dim
        ).transpose(1, 2, 0, 3)  # fmt: skip
        scores = _turned(spec, q) @ _turned(spec, k).transpose(0, 2, 1)
        scores[:, :, valid:] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (shares / shares.sum(-1, keepdims=True)) @ v
        x = x + mixed.transpose(1, 0, 2).reshape(last, -1) @ at["mix_out"]
        inner = _gelu(_normed(spec, x) * at["mlp_norm"] @ at["fc1"] + at["fc1_bias"])
        x = x + inner @ at["fc2"] + at["fc2_bias"]
    memory = _normed(spec, x) * w["norm"] @ w["memory"]
    shape = (last, 2 * spec.memories, spec.heads, spec.head_dim)
    return memory.reshape(shape).transpose(1, 2, 0, 3)


def _front_end(spec: EncodeSpec, w: Arrays, wave: np.ndarray) -> np.ndarray:
    first, second, third = (
        (frames, depth, stride)
        for frames, depth, stride in zip(
            spec.frames(SAMPLES), spec.depths, spec.strides, strict=True
        )
    )
    heard = np.tanh(_windows(wave[:, None], first) @ w["conv1"])
    true = heard[: spec.frames(LENGTH)[0]]
    scale = 1 / np.sqrt(true.var() + spec.epsilon)
    product = _windows(heard, second) @ w["conv2"]
    listened = _gelu(scale * (product - true.mean() * w["conv2_sums"]) + w["conv2_bias"])
    return _gelu(_windows(listened, third) @ w["conv3"] + w["conv3_bias"])


def _windows(values: np.ndarray, sizes: tuple[int, int, int]) -> np.ndarray:
    """(frames, depth) pieces of (time, channels) as they lie in memory."""
    frames, depth, stride = sizes
    flat = np.concatenate([values.reshape(-1).astype(np.float64), np.zeros(depth)])
    step = stride * values.shape[1]
    return np.stack([flat[frame * step : frame * step + depth] for frame in range(frames)])


def _normed(spec: EncodeSpec, x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + spec.epsilon)


def _gelu(x: np.ndarray) -> np.ndarray:
    from math import erf

    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


def _turned(spec: EncodeSpec, x: np.ndarray) -> np.ndarray:
    half = spec.rotary // 2
    angle = np.arange(x.shape[1])[:, None] * spec.theta ** (-np.arange(half) / half)
    low, high, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.concatenate([low * cosine - high * sine, high * cosine + low * sine, rest], axis=-1)

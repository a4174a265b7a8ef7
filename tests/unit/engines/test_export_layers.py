"""The blocks of exported graphs against their formulas in numpy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto

from edge_runtime.engines.export import layers
from edge_runtime.engines.export.decoder import best_two
from edge_runtime.engines.export.graph import GraphWriter

RANDOM = np.random.default_rng(11)


def evaluate(
    build: Callable[..., str],
    *arrays: np.ndarray,
    dtype: type = np.float32,
    fused: bool = False,
) -> np.ndarray:
    """What a graph of `build(g, *names)` gives for `arrays`, in float32."""
    g = GraphWriter("block", dtype, fused=fused)
    names = [g.input(f"in_{n}", array.dtype, array.shape) for n, array in enumerate(arrays)]
    result = g.op("Cast", build(g, *names), to=TensorProto.FLOAT)
    g.output(result, "out", np.float32, None)  # of any rank
    session = onnxruntime.InferenceSession(
        g.model().SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(["out"], dict(zip(names, arrays, strict=True)))[0]


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


@pytest.mark.parametrize("epsilon", [1e-5, 0.5])
def test_layer_norm(epsilon: float) -> None:
    x, weight = normal(2, 5, 16) * 3 + 1, normal(16)
    found = evaluate(lambda g, x: layers.layer_norm(g, x, weight, epsilon), x)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    np.testing.assert_allclose(found, (x - mean) / np.sqrt(variance + epsilon) * weight, atol=1e-5)


def test_layer_norm_of_large_values_in_float16() -> None:
    """The squares leave float16: it is computed in float32."""
    x = (normal(1, 3, 16) * 400).astype(np.float16)
    found = evaluate(
        lambda g, x: layers.layer_norm(g, x, np.ones(16, np.float32), 1e-5), x, dtype=np.float16
    )
    wide = x.astype(np.float32)
    expected = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=5e-3)


def test_gelu_is_the_exact_one() -> None:
    x = np.linspace(-6, 6, 101, dtype=np.float32).reshape(1, 101)
    expected = [[v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x[0].tolist()]]
    np.testing.assert_allclose(evaluate(layers.gelu, x), expected, atol=1e-6)


def test_padded_heads_give_the_same_products() -> None:
    heads, dim, padded, width = 3, 6, 8, 10
    query, key, x = normal(heads * dim, width), normal(heads * dim, width), normal(4, width)

    def products(q: np.ndarray, k: np.ndarray, size: int) -> np.ndarray:
        q, k = (array.reshape(4, heads, size).transpose(1, 0, 2) for array in (q, k))
        return q @ k.transpose(0, 2, 1)

    expected = products(x @ query.T, x @ key.T, dim)
    for rotary in (0, 4):
        wide = [layers.heads_last(weight, heads, padded, rotary) for weight in (query, key)]
        assert wide[0].shape == (width, heads * padded)
        np.testing.assert_allclose(
            products(x @ wide[0], x @ wide[1], padded), expected, rtol=1e-4, atol=1e-4
        )
    scaled = layers.heads_last(query, heads, padded, 4, scale=0.5)
    np.testing.assert_array_equal(scaled, layers.heads_last(query, heads, padded, 4) * 0.5)


def test_padded_heads_come_back_together() -> None:
    heads, dim, padded, width = 3, 6, 8, 10
    value, out, x = normal(heads * dim, width), normal(width, heads * dim), normal(4, width)
    wide = layers.heads_first(out, heads, padded)
    assert wide.shape == (heads * padded, width)
    found = x @ layers.heads_last(value, heads, padded) @ wide
    np.testing.assert_allclose(found, x @ value.T @ out.T, rtol=1e-4, atol=1e-4)


def test_counted_positions_are_those_that_are_given() -> None:
    x = normal(2, 6, 3 * 8)
    counted = np.arange(6)

    def build(g: GraphWriter, x: str, at: str) -> str:
        return layers.Rotary(g, at, 4, 8, 100.0, most=at_most)(x, 3)

    for fused in (False, True):
        at_most = 0
        found = evaluate(build, x, counted, fused=fused)
        at_most = 10
        expected = evaluate(build, x, np.stack([counted, counted]), fused=fused)
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("fused", [False, True])
def test_rotating_halves_equals_rotating_pairs(fused: bool) -> None:
    """Published models turn the pairs (2i, 2i + 1); ours lie apart, and products agree."""
    dim, padded, rotary, theta = 6, 8, 4, 100.0
    weight = normal(dim, dim)  # one head
    hidden, positions = normal(5, dim), np.array([[0, 1, 2, 7, 40]])

    plain = (hidden @ weight.T).astype(np.complex128)
    pairs = plain[:, 0:rotary:2] + 1j * plain[:, 1:rotary:2]
    angles = positions[0][:, None] * theta ** (-np.arange(0, rotary, 2) / rotary)
    pairs = pairs * np.exp(1j * angles)
    rest = plain[:, rotary:].real
    expected = (pairs @ pairs.conj().T).real + rest @ rest.T

    def build(g: GraphWriter, x: str, at: str) -> str:
        return g.reshape(layers.Rotary(g, at, rotary, padded, theta, 64)(x, 1), 0, 0, padded)

    x = (hidden @ layers.heads_last(weight, 1, padded, rotary))[None]
    turned = evaluate(build, x, positions, fused=fused)[0]
    np.testing.assert_allclose(turned @ turned.T, expected, atol=1e-3)
    assert not turned[:, dim:].any()


def test_a_mask_hides_what_lies_behind_each_length() -> None:
    lengths = np.array([3, 0, 5])

    def build(g: GraphWriter, lengths: str) -> str:
        return layers.padding_mask(g, g.ints(5), lengths)

    mask = evaluate(build, lengths)
    assert mask.shape == (3, 1, 1, 5)
    hidden = [[0, 0, 0, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]]
    np.testing.assert_array_equal(mask[:, 0, 0] != 0, np.array(hidden, bool))
    assert set(np.unique(mask)) == {layers.MASKED, 0.0}
    assert np.isfinite(np.float16(layers.MASKED))


@pytest.mark.parametrize("fused", [False, True])
def test_hidden_keys_get_no_weight(fused: bool) -> None:
    """Fused there is nothing to hide, and the heads lie side by side."""
    q, k, v = (normal(2, 5, 3, 4) for _ in range(3))
    lengths = np.array([5, 5 if fused else 2])

    def build(g: GraphWriter, q: str, k: str, v: str, lengths: str) -> str:
        mask = "" if fused else layers.padding_mask(g, g.ints(5), lengths)
        return layers.self_attention(g, q, k, v, 3, mask)

    given = [each.reshape(2, 5, 12) for each in (q, k, v)] if fused else [q, k, v]
    found = evaluate(build, *given, lengths, fused=fused)
    for row, length in enumerate(lengths):
        scores = np.einsum("qhd,khd->hqk", q[row], k[row, :length])
        weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        expected = np.einsum("hqk,khd->qhd", weights, v[row, :length]).reshape(5, 12)
        np.testing.assert_allclose(found[row], expected, atol=1e-5)


def test_outputs_may_be_inputs_or_used_further_on() -> None:
    g = GraphWriter("outputs")
    x = g.input("x", np.float32, (2,))
    twice = g.add(x, x)
    g.output(x, "same", np.float32, (2,))
    g.output(twice, "twice", np.float32, (2,))
    g.output(g.add(x, g.scalar(1.0)), "more", np.float32, (2,))
    session = onnxruntime.InferenceSession(
        g.model().SerializeToString(), providers=["CPUExecutionProvider"]
    )
    same, twice, more = session.run(["same", "twice", "more"], {"x": np.float32([1, 2])})
    assert [same.tolist(), twice.tolist(), more.tolist()] == [[1, 2], [2, 4], [2, 3]]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_constants_that_are_equal_are_stored_once(dtype: type) -> None:
    g = GraphWriter("constants", dtype)
    assert g.scalar(0.5) == g.scalar(0.5)
    assert g.scalar(0.5) != g.scalar(0.25)
    assert g.scalar(0.5) != g.ints(0)
    assert g.constant(np.array(1)) != g.ints(1)  # a scalar is no vector
    assert g.scalar(0.5, np.float64 if dtype == np.float32 else np.float32) != g.scalar(0.5)
    assert g.weight(normal(2, 2), "w") == "w"
    stored = {tensor.name: tensor for tensor in g.model().graph.initializer}
    assert len(stored) == 7
    kind = TensorProto.FLOAT if dtype == np.float32 else TensorProto.FLOAT16
    assert stored["w"].data_type == kind


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("vocabulary", [100, 128, 384])
def test_the_two_best_of_many_and_the_first_of_equals(fused: bool, vocabulary: int) -> None:
    logits = RANDOM.integers(0, 40, (2, 9, vocabulary)).astype(np.float32)
    logits[0, 0, [5, vocabulary - 1]] = 90, 80  # apart
    logits[0, 1, [5, 6]] = 90, 80  # in one block
    logits[0, 2, [7, vocabulary - 2]] = 90, 90

    def build(g: GraphWriter, x: str) -> str:
        first, second, token = best_two(g, x, vocabulary)
        return g.op("Concat", first, second, g.cast(token, np.float32), axis=-1)

    found = evaluate(build, logits, fused=fused)
    ordered = np.sort(logits)
    expected = [ordered[..., -1], ordered[..., -2], logits.argmax(-1)]
    np.testing.assert_array_equal(found, np.stack(expected, -1))

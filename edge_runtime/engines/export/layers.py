"""The blocks that attention models share, as ONNX: norms, rotary positions, attention."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.export.graph import GraphWriter

MASKED = -6e4
"""Added to the score of a key that must not be seen: the largest round number float16 holds."""


def layer_norm(
    g: GraphWriter,
    x: str,
    weight: NDArray[np.float32],
    epsilon: float,
    bias: NDArray[np.float32] | None = None,
) -> str:
    """LayerNorm over the last axis, computed in float32."""
    given = [weight] if bias is None else [weight, bias]
    scales = [g.constant(each, np.float32) for each in given]
    return g.narrow(g.op("LayerNormalization", g.wide(x), *scales, axis=-1, epsilon=epsilon))


def gelu(g: GraphWriter, x: str) -> str:
    """x Φ(x), the exact form with the error function, spelt as optimisers know it."""
    erf = g.op("Erf", g.op("Div", x, g.scalar(2**0.5)))
    return g.mul(g.mul(x, g.add(erf, g.scalar(1.0))), g.scalar(0.5))


def heads_last(
    weight: NDArray[np.float32], heads: int, padded: int, rotary: int = 0, scale: float = 1.0
) -> NDArray[np.float32]:
    """A torch linear [heads·dim, in] as [in, heads·padded], each head zero-padded.

    With `rotary`, the pairs (2i, 2i+1) of the first `rotary` dimensions move to
    (i, rotary/2 + i): dot products do not change, and rotating needs no interleaving.
    """
    out, width = weight.shape
    dim = out // heads
    order = np.arange(dim)
    order[:rotary] = np.concatenate([np.arange(0, rotary, 2), np.arange(1, rotary, 2)])
    split = weight.reshape(heads, dim, width)[:, order] * np.float32(scale)
    wide = np.zeros((heads, padded, width), np.float32)
    wide[:, :dim] = split
    return np.ascontiguousarray(wide.reshape(heads * padded, width).T)


def heads_first(weight: NDArray[np.float32], heads: int, padded: int) -> NDArray[np.float32]:
    """A torch linear [out, heads·dim] as [heads·padded, out], zero rows for the padding."""
    out, width = weight.shape
    dim = width // heads
    wide = np.zeros((heads, padded, out), np.float32)
    wide[:, :dim] = weight.T.reshape(heads, dim, out)
    return wide.reshape(heads * padded, out)


class Rotary:
    """Rotary position embedding (Su et al. 2021) with frequencies theta^(-2i/rotary).

    Queries and keys are laid out as `heads_last` does; dimensions past `rotary` pass unchanged.
    """

    def __init__(
        self, g: GraphWriter, positions: str, rotary: int, padded: int, theta: float, most: int = 0
    ) -> None:
        """`positions` int64, (T,) where they count from 0, or (B,Q), each below `most`."""
        self._g = g
        self._rotary = rotary
        self._padded = padded
        frequency = theta ** (-np.arange(0, rotary, 2) / rotary)
        self._at, tables = "", ("", "")
        if not g.fused:
            tables = _tables(g, positions, frequency, padded)
        elif most:
            self._at = positions
            angles = np.arange(most)[:, None] * frequency
            tables = g.constant(np.cos(angles), g.dtype), g.constant(np.sin(angles), g.dtype)
        else:
            self._at = g.ints(0)
            times = g.unsqueeze(g.cast(positions, np.float32), 1)
            angle = g.mul(times, g.constant(frequency, np.float32))
            tables = g.narrow(g.op("Cos", angle)), g.narrow(g.op("Sin", angle))
        self._cosine, self._sine = tables

    def __call__(self, x: str, heads: int) -> str:
        """(B,T,heads·padded) turned, as (B,T,heads,padded); fused as it came."""
        g, padded = self._g, self._padded
        if g.fused:
            return g.op(
                "RotaryEmbedding", x, self._at, self._cosine, self._sine, domain="com.microsoft",
                num_heads=heads, rotary_embedding_dim=self._rotary,
            )  # fmt: skip
        x = g.op("Reshape", x, g.ints(0, 0, heads, padded))
        half = self._rotary // 2
        first, second, rest = g.split(x, [half, half, padded - self._rotary], axis=-1)
        swapped = g.op("Concat", second, first, rest, axis=-1)
        return g.add(g.mul(x, self._cosine), g.mul(swapped, self._sine))


def _tables(
    g: GraphWriter, positions: str, frequency: NDArray[np.float64], padded: int
) -> tuple[str, str]:
    """Cosines and signed sines (…,1,padded) of positions."""
    half = frequency.size
    whole, sign = np.zeros(padded), np.ones(padded)
    whole[: 2 * half] = np.tile(frequency, 2)
    sign[:half] = -1
    times = g.unsqueeze(g.unsqueeze(g.cast(positions, np.float32), -1), -1)
    angle = g.mul(times, g.constant(whole, np.float32))
    sine = g.mul(g.op("Sin", angle), g.constant(sign, np.float32))
    return g.narrow(g.op("Cos", angle)), g.narrow(sine)


def heads_apart(g: GraphWriter, x: str, heads: int, dim: int) -> str:
    """(B,T,H·D) as (B,T,H,D); fused as it is: that is what attention takes there."""
    return x if g.fused else g.op("Reshape", x, g.ints(0, 0, heads, dim))


def self_attention(g: GraphWriter, q: str, k: str, v: str, heads: int, mask: str) -> str:
    """The mix (B,T,H·D) of (B,T,H,D), every key but the hidden ones seen by every query.

    `mask` (B,1,1,T) is added to the scores, if there is one. Fused there is none, and all are
    (B,T,H·D): onnxruntime keeps scores within the processor's cache where nothing is added.
    """
    if g.fused:
        return fused_attention(g, q, k, v, heads)
    q, k, v = (g.transpose(x, 0, 2, *last) for x, *last in ((q, 1, 3), (k, 3, 1), (v, 1, 3)))
    scores = g.matmul(q, k)
    return attention(g, g.add(scores, mask) if mask else scores, v)[0]


def fused_attention(g: GraphWriter, q: str, k: str, v: str, heads: int, added: str = "") -> str:
    """The mix (B,Q,H·D) in one node, of queries (B,Q,H·D) and of keys and values.

    These come as (B,T,H·D) or (B,H,T,D); `added` (B,1,Q,T) is added to the scores.
    """
    given = [g.wide(q), g.wide(k), g.wide(v)] + (["", "", g.wide(added)] if added else [])
    mixed = g.op(
        "MultiHeadAttention", *given, domain="com.microsoft", num_heads=heads, scale=1.0
    )  # fmt: skip
    return g.narrow(mixed)


def attention(g: GraphWriter, scores: str, v: str) -> tuple[str, str]:
    """Softmax attention from masked scores (B,H,Q,T): the mix (B,Q,H·D) and the weights.

    Values `v` come as (B,H,T,D).
    """
    weights = g.op("Softmax", scores, axis=-1)
    mixed = g.transpose(g.matmul(weights, v), 0, 2, 1, 3)
    return g.op("Reshape", mixed, g.ints(0, 0, -1)), weights


def padding_mask(g: GraphWriter, size: str, length: str) -> str:
    """(B,1,1,size): 0 for positions below `length` (B), `MASKED` from there on."""
    inside = g.op("Less", g.arange(size), g.unsqueeze(length, 1))
    return g.unsqueeze(g.op("Where", inside, g.scalar(0.0), g.scalar(MASKED)), 1, 2)

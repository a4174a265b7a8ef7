"""The tiles of the decoder: embedding, runs of layers, and the head in the last of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edge_runtime.engines.export import layers
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.export.moonshine import blocks
from edge_runtime.engines.export.moonshine.blocks import Weights
from edge_runtime.engines.recipe import MoonshineRecipe

_BLOCK = 128
"""Logits that are searched together for the best two."""


def embedding(recipe: MoonshineRecipe, dtype: Any) -> GraphWriter:
    """`tokens` (B,Q), `table` (V,d) → `hidden` (B,Q,d)."""
    shape = recipe.architecture
    g = GraphWriter("embedding", dtype)
    tokens = g.input("tokens", np.int64, ("B", "Q"))
    rows = g.input("table", dtype, (shape.vocabulary, shape.width))
    g.output(g.op("Gather", rows, tokens, axis=0), "hidden", dtype, ("B", "Q", shape.width))
    return g


def decoder_layers(
    recipe: MoonshineRecipe,
    weights: Weights,
    dtype: Any,
    indices: Sequence[int],
    *,
    fused: bool = False,
) -> GraphWriter:
    """A run of decoder layers, with the head where the last layer is among them.

    `hidden` (B,Q,d), `position` (B) of the first row, `past_k_i`, `past_v_i`
    (B,H,S,D), `memory_k_i`, `memory_v_i` (B,H,T,D), `memory_length` (B) →
    `hidden` for the next tile, or `next_token`, `logprob`, `margin`, `frame`
    (B,Q), `align` (B,Q,T); `new_k_i`, `new_v_i`; `position_next` (B) = position + Q.
    Tiles after one with alignment heads also take the `align_past` it gave.
    """
    shape = recipe.architecture
    last = indices[-1] + 1 == shape.decoder_layers
    g = GraphWriter(f"layers_{indices[0]}_{indices[-1] + 1}", dtype, fused=fused)
    tile = _DecoderTile(g, recipe, weights)
    x = g.input("hidden", dtype, ("B", "Q", shape.width))
    tile.begin(x)
    align = ""
    if any(layer < indices[0] for layer, _ in recipe.alignment_heads):
        align = g.input("align_past", np.float32, ("B", "Q", "T"))
    for index in indices:
        x, peaks = tile.layer(index, x)
        chosen = [head for layer, head in recipe.alignment_heads if layer == index]
        if chosen:
            share = _head_mean(g, peaks, chosen, len(recipe.alignment_heads))
            align = g.add(align, share) if align else share
    if align and (not last):
        g.output(align, "align_next", np.float32, ("B", "Q", "T"))
    if last:
        tile.head(x, align)
    else:
        g.output(x, "hidden_next", dtype, ("B", "Q", shape.width))
    g.output(tile.position_next, "position_next", np.int64, ("B",))
    return g


def _head_mean(g: GraphWriter, weights: str, heads: Sequence[int], total: int) -> str:
    """The share of these heads in the mean of all alignment heads, (B,Q,T) float32."""
    chosen = g.op("Gather", g.wide(weights), g.ints(*heads), axis=1)
    summed = g.op("ReduceSum", chosen, g.ints(1), keepdims=0)
    return g.mul(summed, g.scalar(1.0 / total, np.float32))


def _best_two(g: GraphWriter, logits: str, vocabulary: int) -> tuple[str, str]:
    """The two best of (B,Q,V) and where they are, each (B,Q,2); of equals the first goes first.

    First within blocks, then among their bests: one long row would keep most of a GPU idle.
    """
    if vocabulary % _BLOCK:
        best, token = g.split_op("TopK", 2, logits, g.ints(2), axis=-1)
        return best, token
    count = vocabulary // _BLOCK
    each, place = g.split_op("TopK", 2, g.reshape(logits, 0, 0, count, _BLOCK), g.ints(2), axis=-1)
    firsts = np.arange(0, vocabulary, _BLOCK, dtype=np.int64).reshape(1, 1, count, 1)
    places = g.reshape(g.add(place, g.constant(firsts)), 0, 0, 2 * count)
    best, where = g.split_op("TopK", 2, g.reshape(each, 0, 0, 2 * count), g.ints(2), axis=-1)
    return best, g.op("GatherElements", places, where, axis=-1)


class _DecoderTile:
    """What the layers of one tile share: positions, masks, rotations."""

    def __init__(self, g: GraphWriter, recipe: MoonshineRecipe, weights: Weights) -> None:
        self.g = g
        self.recipe = recipe
        self.weights = weights

    def begin(self, hidden: str) -> None:
        g, shape = self.g, self.recipe.architecture
        position = g.input("position", np.int64, ("B",))
        length = g.input("memory_length", np.int64, ("B",))
        queries = g.size(hidden, 1)
        self.position_next = g.add(position, queries)
        at = g.add(g.unsqueeze(position, 1), g.arange(queries))
        # Rows behind a shorter draft may lie past the cache; they are never looked at.
        most = 2 * shape.past
        self.rotary = layers.Rotary(g, at, shape.rotary, shape.padded_head_dim, shape.theta, most)
        rows = g.constant(np.arange(shape.past, dtype=np.int64))
        offset = g.op("Sub", rows, g.unsqueeze(position, 1))
        self.fresh = self._fresh(offset, queries)
        self.source = self._source(offset, queries)
        seen = g.op("LessOrEqual", rows, g.unsqueeze(at, 2))
        masked = g.op("Where", seen, g.scalar(0.0), g.scalar(layers.MASKED))
        self.causal = g.unsqueeze(masked, 1)
        self.length = length
        self.padding = ""

    def _fresh(self, offset: str, queries: str) -> str:
        """(B,1,S,1) bool: cache rows that this call writes."""
        g = self.g
        from_first = g.op("GreaterOrEqual", offset, g.ints(0))
        to_last = g.op("Less", offset, queries)
        return g.unsqueeze(g.op("And", from_first, to_last), 1, 3)

    def _source(self, offset: str, queries: str) -> str:
        """(B,S,1) int64: which new row goes into a cache row, one that exists."""
        g = self.g
        last = g.op("Sub", queries, g.ints(1))
        return g.unsqueeze(g.op("Min", g.op("Max", offset, g.ints(0)), last), 2)

    def layer(self, index: int, x: str) -> tuple[str, str]:
        """One decoder layer; also gives its cross-attention weights (B,H,Q,T)."""
        g, recipe, weights = self.g, self.recipe, self.weights
        name = f"model.decoder.layers.{index}."
        normed = blocks.norm(g, recipe, weights, name + "input_layernorm", x)
        q, k, v = blocks.self_projections(g, recipe, weights, name, normed, self.rotary)
        q = g.transpose(q, 0, 2, 1, 3)
        k = self._append(f"k_{index}", k)
        v = self._append(f"v_{index}", v)
        scores = g.add(g.matmul(q, g.transpose(k, 0, 1, 3, 2)), self.causal)
        mixed, _ = layers.attention(g, scores, v)
        x = g.add(x, blocks.output_projection(g, recipe, weights, name + "self_attn", mixed))
        x, peaks = self._cross(index, x)
        return g.add(x, self._gated(name, x)), peaks

    def _append(self, name: str, new: str) -> str:
        """The cache (B,H,S,D) with the `new` rows (B,Q,H,D) in their places."""
        g, shape = self.g, self.recipe.architecture
        size = ("B", shape.heads, shape.past, shape.padded_head_dim)
        past = g.input(f"past_{name}", g.dtype, size)
        placed = g.transpose(g.op("GatherND", new, self.source, batch_dims=1), 0, 2, 1, 3)
        return g.output(g.op("Where", self.fresh, placed, past), f"new_{name}", g.dtype, size)

    def _cross(self, index: int, x: str) -> tuple[str, str]:
        g, recipe, weights = self.g, self.recipe, self.weights
        shape = recipe.architecture
        heads, padded = shape.heads, shape.padded_head_dim
        name = f"model.decoder.layers.{index}."
        size = ("B", heads, "T", padded)
        k = g.input(f"memory_k_{index}", g.dtype, size)
        v = g.input(f"memory_v_{index}", g.dtype, size)
        if not self.padding:
            self.padding = layers.padding_mask(g, g.size(k, 2), self.length)
        normed = blocks.norm(g, recipe, weights, name + "post_attention_layernorm", x)
        weight = blocks.query_weight(recipe, weights, name + "encoder_attn")
        q = g.matmul(normed, g.weight(weight, name + "encoder_attn.q_proj.weight"))
        q = blocks.as_heads(g, q, heads, padded)
        scores = g.add(g.matmul(q, g.transpose(k, 0, 1, 3, 2)), self.padding)
        mixed, peaks = layers.attention(g, scores, v)
        return g.add(
            x, blocks.output_projection(g, recipe, weights, name + "encoder_attn", mixed)
        ), peaks

    def _gated(self, name: str, x: str) -> str:
        """The gated MLP: fc2(silu(gate) · value)."""
        g, recipe, weights = self.g, self.recipe, self.weights
        normed = blocks.norm(g, recipe, weights, name + "final_layernorm", x)
        both = g.add(
            blocks.linear(g, weights, name + "mlp.fc1", normed),
            g.weight(weights[name + "mlp.fc1.bias"], name + "mlp.fc1.bias"),
        )
        inner = weights[name + "mlp.fc2.weight"].shape[1]
        value, gate = g.split(both, [inner, inner], axis=-1)
        gated = g.mul(g.mul(gate, g.op("Sigmoid", gate)), value)
        return g.add(
            blocks.linear(g, weights, name + "mlp.fc2", gated),
            g.weight(weights[name + "mlp.fc2.bias"], name + "mlp.fc2.bias"),
        )

    def head(self, x: str, align: str) -> None:
        """The best token and how sure it is; the logits stay inside."""
        g, shape = self.g, self.recipe.architecture
        rows = g.input("table", g.dtype, (shape.vocabulary, shape.width))
        normed = blocks.norm(g, self.recipe, self.weights, "model.decoder.norm", x)
        logits = g.wide(g.matmul(normed, g.transpose(rows, 1, 0)))
        best, token = _best_two(g, logits, shape.vocabulary)
        first, second = g.split(best, [1, 1], axis=-1)
        spread = g.op("ReduceSum", g.op("Exp", g.op("Sub", logits, first)), g.ints(-1), keepdims=1)

        def give(value: str, name: str, dtype: Any) -> None:
            g.output(g.op("Squeeze", value, g.ints(-1)), name, dtype, ("B", "Q"))

        give(g.split(token, [1, 1], axis=-1)[0], "next_token", np.int64)
        give(g.op("Neg", g.op("Log", spread)), "logprob", np.float32)
        give(g.op("Sub", first, second), "margin", np.float32)
        give(g.op("ArgMax", align, axis=-1, keepdims=1), "frame", np.int64)
        g.output(align, "align", np.float32, ("B", "Q", "T"))

"""Moonshine's decoder in tiles: the embedding, and runs of layers with the head in the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edge_runtime.engines.export import layers
from edge_runtime.engines.export.decoder import DecoderTile
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.export.moonshine import blocks
from edge_runtime.engines.export.moonshine.blocks import Weights
from edge_runtime.engines.recipe import MoonshineRecipe


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
    """A run of decoder layers, as `DecoderTile.write` says."""
    g = GraphWriter(f"layers_{indices[0]}_{indices[-1] + 1}", dtype, fused=fused)
    _MoonshineTile(g, recipe, weights).write(indices)
    return g


class _MoonshineTile(DecoderTile):
    """Layers with rotary positions and a gated MLP."""

    def __init__(self, g: GraphWriter, recipe: MoonshineRecipe, weights: Weights) -> None:
        super().__init__(g, recipe)
        self._of = recipe
        self._weights = weights

    def placed(self) -> None:
        # Rows behind a shorter draft may lie past the cache; they are never looked at.
        shape = self._of.architecture
        most = 2 * shape.past
        self._rotary = layers.Rotary(
            self.g, self.at, shape.rotary, shape.padded_head_dim, shape.theta, most
        )

    def layer(self, index: int, x: str) -> tuple[str, str]:
        g, recipe, weights = self.g, self._of, self._weights
        name = f"model.decoder.layers.{index}."
        normed = blocks.norm(g, recipe, weights, name + "input_layernorm", x)
        q, k, v = blocks.self_projections(g, recipe, weights, name, normed, self._rotary)
        k = self.append(f"k_{index}", k)
        v = self.append(f"v_{index}", v)
        mixed, _ = self.attended(q, k, v, self.causal)
        x = g.add(x, blocks.output_projection(g, recipe, weights, name + "self_attn", mixed))
        x, peaks = self._cross(index, x)
        return g.add(x, self._gated(name, x)), peaks

    def normed(self, x: str) -> str:
        return blocks.norm(self.g, self._of, self._weights, "model.decoder.norm", x)

    def _cross(self, index: int, x: str) -> tuple[str, str]:
        g, recipe, weights = self.g, self._of, self._weights
        shape = recipe.architecture
        name = f"model.decoder.layers.{index}."
        k, v, padding = self.memory(index)
        normed = blocks.norm(g, recipe, weights, name + "post_attention_layernorm", x)
        weight = blocks.query_weight(recipe, weights, name + "encoder_attn")
        q = g.matmul(normed, g.weight(weight, name + "encoder_attn.q_proj.weight"))
        q = layers.heads_apart(g, q, shape.heads, shape.padded_head_dim)
        mixed, peaks = self.attended(q, k, v, padding, weights=self.aligned(index))
        return g.add(
            x, blocks.output_projection(g, recipe, weights, name + "encoder_attn", mixed)
        ), peaks

    def _gated(self, name: str, x: str) -> str:
        """The gated MLP: fc2(silu(gate) · value)."""
        g, recipe, weights = self.g, self._of, self._weights
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

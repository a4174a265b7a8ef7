"""What Moonshine's encoder and decoder layers are made of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.export import layers
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.recipe import MoonshineRecipe

Weights = Mapping[str, NDArray[np.float32]]


def norm(g: GraphWriter, recipe: MoonshineRecipe, weights: Weights, name: str, x: str) -> str:
    """The LayerNorm called `name`, over the last axis."""
    return layers.layer_norm(g, x, weights[name + ".weight"], recipe.architecture.norm_epsilon)


def linear(g: GraphWriter, weights: Weights, name: str, x: str) -> str:
    """The product with the torch linear called `name`, without its bias."""
    return g.matmul(x, g.weight(weights[name + ".weight"].T, name + ".weight"))


def self_projections(
    g: GraphWriter,
    recipe: MoonshineRecipe,
    weights: Weights,
    name: str,
    x: str,
    rotary: layers.Rotary,
) -> tuple[str, str, str]:
    """Queries (scaled), keys (both rotated) and values of self-attention.

    Each is (B,Q,H,D), fused (B,Q,H·D).
    """
    shape = recipe.architecture
    heads, padded = shape.heads, shape.padded_head_dim
    name += "self_attn"
    packed = g.matmul(x, g.weight(qkv_weight(recipe, weights, name), name + ".qkv_proj.weight"))
    qk, v = g.split(packed, [2 * heads * padded, heads * padded], axis=-1)
    each = heads * padded if g.fused else heads
    q, k = g.split(rotary(qk, 2 * heads), [each, each], axis=2)
    return q, k, layers.heads_apart(g, v, heads, padded)


def as_heads(g: GraphWriter, x: str, heads: int, padded: int) -> str:
    """(B,Q,H·D) as (B,H,Q,D)."""
    return g.transpose(g.op("Reshape", x, g.ints(0, 0, heads, padded)), 0, 2, 1, 3)


def output_projection(
    g: GraphWriter, recipe: MoonshineRecipe, weights: Weights, name: str, x: str
) -> str:
    """The mix of the heads of the attention called `name`, back in the model's width."""
    return g.matmul(x, g.weight(out_weight(recipe, weights, name), name + ".o_proj.weight"))


def qkv_weight(recipe: MoonshineRecipe, weights: Weights, name: str) -> NDArray[np.float32]:
    """(width, 3·H·D) of self-attention: queries (scaled) and keys laid out for `rotate`, values."""
    shape = recipe.architecture
    parts = [
        layers.heads_last(
            weights[f"{name}.{kind}_proj.weight"],
            shape.heads,
            shape.padded_head_dim,
            rotary,
            scale,
        )
        for kind, rotary, scale in (
            ("q", shape.rotary, shape.head_dim**-0.5),
            ("k", shape.rotary, 1.0),
            ("v", 0, 1.0),
        )
    ]
    return np.concatenate(parts, axis=1)


def query_weight(recipe: MoonshineRecipe, weights: Weights, name: str) -> NDArray[np.float32]:
    """(width, H·D) of cross-attention: queries, scaled."""
    shape = recipe.architecture
    return layers.heads_last(
        weights[name + ".q_proj.weight"],
        shape.heads,
        shape.padded_head_dim,
        scale=shape.head_dim**-0.5,
    )


def out_weight(recipe: MoonshineRecipe, weights: Weights, name: str) -> NDArray[np.float32]:
    """(H·D, width) of the projection that mixes the heads."""
    shape = recipe.architecture
    return layers.heads_first(weights[name + ".o_proj.weight"], shape.heads, shape.padded_head_dim)

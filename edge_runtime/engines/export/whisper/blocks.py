"""What Whisper's encoder and decoder layers are made of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.export import layers
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.recipe import WhisperRecipe

Array = NDArray[np.float32]
Weights = Mapping[str, Array]


def norm(g: GraphWriter, recipe: WhisperRecipe, weights: Weights, name: str, x: str) -> str:
    """The LayerNorm called `name`, over the last axis."""
    weight, bias = weights[name + ".weight"], weights[name + ".bias"]
    return layers.layer_norm(g, x, weight, recipe.architecture.norm_epsilon, bias)


def linear(g: GraphWriter, name: str, x: str, weight: Array, bias: Array | None) -> str:
    """The product of `x` with (in, out), and a bias."""
    product = g.matmul(x, g.weight(weight, name + ".weight"))
    return product if bias is None else g.add(product, g.weight(bias, name + ".bias"))


def mlp(g: GraphWriter, recipe: WhisperRecipe, weights: Weights, name: str, x: str) -> str:
    """`x` and what the feed-forward block of the layer called `name` makes of it."""
    normed = norm(g, recipe, weights, name + "final_layer_norm", x)
    rise, fall = name + "fc1", name + "fc2"
    up = linear(g, rise, normed, weights[rise + ".weight"].T, weights[rise + ".bias"])
    up = layers.gelu(g, up)
    return g.add(x, linear(g, fall, up, weights[fall + ".weight"].T, weights[fall + ".bias"]))


def projection(
    g: GraphWriter, recipe: WhisperRecipe, weights: Weights, name: str, parts: str, x: str
) -> list[str]:
    """Queries (scaled), keys or values of the attention called `name`.

    Each is (B,T,H,D), fused (B,T,H·D). `parts` are of "q", "k" and "v"; one matrix product
    computes all.
    """
    dims = recipe.architecture
    heads, padded = dims.heads, dims.padded_head_dim
    pairs = [_laid_out(recipe, weights, f"{name}.{part}_proj", part) for part in parts]
    weight = np.concatenate([weight for weight, _ in pairs], axis=1)
    bias = np.concatenate([bias for _, bias in pairs])
    packed = linear(g, f"{name}.{parts}_proj", x, weight, bias)
    given = g.split(packed, [heads * padded] * len(parts), axis=-1) if parts[1:] else [packed]
    return [layers.heads_apart(g, each, heads, padded) for each in given]


def out(g: GraphWriter, recipe: WhisperRecipe, weights: Weights, name: str, x: str) -> str:
    """The mix of the heads of the attention called `name`, back in the model's width."""
    dims = recipe.architecture
    name += ".out_proj"
    weight = layers.heads_first(weights[name + ".weight"], dims.heads, dims.padded_head_dim)
    return linear(g, name, x, weight, weights[name + ".bias"])


def memory_weights(recipe: WhisperRecipe, weights: Weights) -> tuple[Array, Array]:
    """(width, 2·L·H·D) and its bias: keys of all layers' cross-attention, then values."""
    pairs = [
        _laid_out(recipe, weights, f"model.decoder.layers.{i}.encoder_attn.{part}_proj", part)
        for part in "kv"
        for i in range(recipe.architecture.decoder_layers)
    ]
    return (
        np.concatenate([weight for weight, _ in pairs], axis=1),
        np.concatenate([bias for _, bias in pairs]),
    )


def _laid_out(recipe: WhisperRecipe, weights: Weights, name: str, part: str) -> tuple[Array, Array]:
    """A torch linear as (in, H·D) and its bias, heads zero-padded, queries scaled."""
    dims = recipe.architecture
    heads, padded = dims.heads, dims.padded_head_dim
    scale = dims.head_dim**-0.5 if part == "q" else 1.0
    weight = layers.heads_last(weights[name + ".weight"], heads, padded, scale=scale)
    bias = weights.get(name + ".bias", np.zeros(dims.width, np.float32)).reshape(-1, 1)
    return weight, layers.heads_last(bias, heads, padded, scale=scale).reshape(-1)

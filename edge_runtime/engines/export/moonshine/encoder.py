"""The first tile: front end, encoder, and the keys and values of cross-attention."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.export import layers
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.export.moonshine import blocks
from edge_runtime.engines.export.moonshine.blocks import Weights
from edge_runtime.engines.recipe import MoonshineRecipe


def encoder(
    recipe: MoonshineRecipe, weights: Weights, dtype: Any, *, fused: bool = False
) -> GraphWriter:
    """`audio` (B,N) f32, `length` (B) → `memory_k_i`, `memory_v_i` (B,H,T,D), `memory_length` (B).

    `length` counts samples; N is at least as long as the longest row, fused as long as each.
    """
    shape = recipe.architecture
    g = GraphWriter("encoder", dtype, fused=fused)
    audio = g.input("audio", np.float32, ("B", "N"))
    length = g.input("length", np.int64, ("B",))
    x, frames = _front_end(g, recipe, weights, audio, length)

    size = g.size(x, 1)
    mask = "" if fused else layers.padding_mask(g, size, frames)
    rotary = layers.Rotary(g, g.arange(size), shape.rotary, shape.padded_head_dim, shape.theta)
    for index in range(shape.encoder_layers):
        x = _encoder_layer(g, recipe, weights, f"model.encoder.layers.{index}.", x, rotary, mask)
    x = blocks.norm(g, recipe, weights, "model.encoder.layer_norm", x)
    _cross_memory(g, recipe, weights, x)
    g.output(frames, "memory_length", np.int64, ("B",))
    return g


def _front_end(
    g: GraphWriter, recipe: MoonshineRecipe, weights: Weights, audio: str, length: str
) -> tuple[str, str]:
    """Three convolutions: hidden (B,T,d) and its true lengths (B), in frames."""
    name = "model.encoder."
    x = g.narrow(g.unsqueeze(audio, 1))
    frames = length
    dims = recipe.architecture
    for number, (kernel, stride) in enumerate(
        zip(dims.conv_kernels, dims.conv_strides, strict=True), start=1
    ):
        x = _convolution(g, weights, f"{name}conv{number}", x, stride)
        frames = _after(g, frames, kernel, stride)
        if number == 1:
            x = _group_norm(
                g,
                g.op("Tanh", x),
                frames,
                weights[name + "groupnorm.weight"],
                weights[name + "groupnorm.bias"],
                dims.norm_epsilon,
            )
        else:
            x = layers.gelu(g, x)
    return g.transpose(x, 0, 2, 1), frames


def _convolution(g: GraphWriter, weights: Weights, name: str, x: str, stride: int) -> str:
    inputs = [x, g.weight(weights[name + ".weight"], name + ".weight")]
    if name + ".bias" in weights:
        inputs.append(g.weight(weights[name + ".bias"], name + ".bias"))
    return g.op("Conv", *inputs, strides=[stride])


def _after(g: GraphWriter, frames: str, kernel: int, stride: int) -> str:
    """Frames left after an unpadded convolution."""
    return g.add(g.op("Div", g.op("Sub", frames, g.ints(kernel)), g.ints(stride)), g.ints(1))


def _group_norm(
    g: GraphWriter,
    x: str,
    frames: str,
    weight: NDArray[np.float32],
    bias: NDArray[np.float32],
    epsilon: float,
) -> str:
    """GroupNorm with one group over the true frames only: float32 and two passes.

    The published model normalises over whatever it is given; with sums over
    the true length a padded row comes out as it would alone.
    """
    if g.fused:
        return _filled_norm(g, x, weight, bias, epsilon)
    x = g.wide(x)
    channels = weight.size
    inside = g.op("Less", g.arange(g.size(x, 2)), g.unsqueeze(frames, 1))
    inside = g.unsqueeze(g.cast(inside, np.float32), 1)
    count = g.mul(g.cast(frames, np.float32), g.scalar(channels, np.float32))
    count = g.unsqueeze(count, 1, 2)

    def mean(values: str) -> str:
        masked = g.mul(values, inside)
        return g.op("Div", g.op("ReduceSum", masked, g.ints(1, 2), keepdims=1), count)

    centred = g.op("Sub", x, mean(x))
    variance = mean(g.mul(centred, centred))
    deviation = g.op("Sqrt", g.add(variance, g.scalar(epsilon, np.float32)))
    scaled = g.mul(centred, g.op("Div", g.constant(weight.reshape(1, -1, 1)), deviation))
    return g.narrow(g.add(scaled, g.constant(bias.reshape(1, -1, 1))))


def _filled_norm(
    g: GraphWriter, x: str, weight: NDArray[np.float32], bias: NDArray[np.float32], epsilon: float
) -> str:
    """The same where every row fills its frames: what onnxruntime has a node for."""
    whole = g.op("Reshape", g.wide(x), g.ints(0, 1, -1))
    one, none = g.constant([1.0], np.float32), g.constant([0.0], np.float32)
    whole = g.op("InstanceNormalization", whole, one, none, epsilon=epsilon)
    normed = g.op("Reshape", whole, g.ints(0, weight.size, -1))
    scaled = g.mul(normed, g.constant(weight.reshape(1, -1, 1)))
    return g.narrow(g.add(scaled, g.constant(bias.reshape(1, -1, 1))))


def _encoder_layer(
    g: GraphWriter,
    recipe: MoonshineRecipe,
    weights: Weights,
    name: str,
    x: str,
    rotary: layers.Rotary,
    mask: str,
) -> str:
    normed = blocks.norm(g, recipe, weights, name + "input_layernorm", x)
    q, k, v = blocks.self_projections(g, recipe, weights, name, normed, rotary)
    mixed = layers.self_attention(g, q, k, v, recipe.architecture.heads, mask)
    x = g.add(x, blocks.output_projection(g, recipe, weights, name + "self_attn", mixed))
    normed = blocks.norm(g, recipe, weights, name + "post_attention_layernorm", x)
    up = g.add(
        blocks.linear(g, weights, name + "mlp.fc1", normed),
        g.weight(weights[name + "mlp.fc1.bias"], name + "mlp.fc1.bias"),
    )
    down = g.add(
        blocks.linear(g, weights, name + "mlp.fc2", layers.gelu(g, up)),
        g.weight(weights[name + "mlp.fc2.bias"], name + "mlp.fc2.bias"),
    )
    return g.add(x, down)


def _cross_memory(g: GraphWriter, recipe: MoonshineRecipe, weights: Weights, x: str) -> None:
    """Keys and values of every decoder layer's cross-attention, from one matrix product."""
    shape = recipe.architecture
    heads, padded = shape.heads, shape.padded_head_dim
    names = _memories(recipe)
    packed = g.matmul(x, g.weight(cross_weight(recipe, weights), "cross_proj.weight"))
    parts = g.split(packed, [heads * padded] * len(names), axis=-1)
    for (kind, index), value in zip(names, parts, strict=True):
        g.output(
            blocks.as_heads(g, value, heads, padded),
            f"memory_{kind}_{index}",
            g.dtype,
            ("B", heads, "T", padded),
        )


def cross_weight(recipe: MoonshineRecipe, weights: Weights) -> NDArray[np.float32]:
    """(width, 2·L·H·D): keys of all decoder layers' cross-attention, then values."""
    dims = recipe.architecture
    return np.concatenate(
        [
            layers.heads_last(
                weights[f"model.decoder.layers.{i}.encoder_attn.{kind}_proj.weight"],
                dims.heads,
                dims.padded_head_dim,
            )
            for kind, i in _memories(recipe)
        ],
        axis=1,
    )


def _memories(recipe: MoonshineRecipe) -> list[tuple[str, int]]:
    """The order in which keys and values of the decoder's layers follow each other."""
    return [(kind, index) for kind in "kv" for index in range(recipe.architecture.decoder_layers)]

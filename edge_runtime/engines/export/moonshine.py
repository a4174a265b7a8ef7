"""Moonshine as tiles: front end, encoder and cross K/V; embedding; decoder layers; head.

Weights come under their Hugging Face names. The architecture is that of
Jeffries et al. 2024, "Moonshine: Speech Recognition for Live Transcription and
Voice Commands".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.shape import ModelShape
from edge_runtime.engines.export import layers
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.recipe import MoonshineRecipe

Weights = Mapping[str, NDArray[np.float32]]


def tiles(
    recipe: MoonshineRecipe, weights: Weights, dtype: Any
) -> dict[str, Callable[[], GraphWriter]]:
    """The writers of all tiles by file name; each is called for one graph at a time."""
    made: dict[str, Callable[[], GraphWriter]] = {
        "encoder": lambda: encoder(recipe, weights, dtype),
        "embedding": lambda: embedding(recipe, dtype),
    }
    for indices in shape(recipe).tiles:
        name = f"layers_{indices.start}_{indices.stop}"
        made[name] = _tile(recipe, weights, dtype, indices)
    return made


def table(weights: Weights, dtype: Any) -> NDArray[Any]:
    """The embedding table (vocabulary, width), used at both ends of the decoder."""
    return np.ascontiguousarray(weights["model.decoder.embed_tokens.weight"], dtype)


def shape(recipe: MoonshineRecipe) -> ModelShape:
    """What the runner must know of these graphs."""
    dims = recipe.architecture
    return ModelShape(
        decoder_tiles=recipe.decoder_tiles,
        decoder_layers=dims.decoder_layers,
        width=dims.width,
        heads=dims.heads,
        padded_head_dim=dims.padded_head_dim,
        past=dims.past,
        vocabulary=dims.vocabulary,
        begin=dims.bos,
        end=dims.eos,
        tokens_per_second=dims.tokens_per_second,
        kernels=dims.conv_kernels,
        strides=dims.conv_strides,
        audio_seconds=recipe.buckets.audio_seconds,
        draft_tokens=recipe.buckets.draft_tokens,
    )


def _tile(
    recipe: MoonshineRecipe, weights: Weights, dtype: Any, indices: range
) -> Callable[[], GraphWriter]:
    return lambda: decoder_layers(recipe, weights, dtype, indices)


def encoder(recipe: MoonshineRecipe, weights: Weights, dtype: Any) -> GraphWriter:
    """`audio` (B,N) f32, `length` (B) → `memory_k_i`, `memory_v_i` (B,H,T,D), `memory_length` (B).

    `length` counts samples; N is at least as long as the longest row.
    """
    shape = recipe.architecture
    g = GraphWriter("encoder", dtype)
    audio = g.input("audio", np.float32, ("B", "N"))
    length = g.input("length", np.int64, ("B",))
    x, frames = _front_end(g, recipe, weights, audio, length)

    size = g.size(x, 1)
    mask = layers.padding_mask(g, size, frames)
    cosine, sine = layers.rotary_tables(
        g, g.unsqueeze(g.arange(size), 1), shape.rotary, shape.padded_head_dim, shape.theta
    )
    for index in range(shape.encoder_layers):
        x = _encoder_layer(
            g, recipe, weights, f"model.encoder.layers.{index}.", x, (cosine, sine, mask)
        )
    x = _norm(g, recipe, weights, "model.encoder.layer_norm", x)
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


def _encoder_layer(
    g: GraphWriter,
    recipe: MoonshineRecipe,
    weights: Weights,
    name: str,
    x: str,
    context: tuple[str, str, str],
) -> str:
    cosine, sine, mask = context
    normed = _norm(g, recipe, weights, name + "input_layernorm", x)
    q, k, v = _self_projections(g, recipe, weights, name, normed, cosine, sine)
    q, k = g.transpose(q, 0, 2, 1, 3), g.transpose(k, 0, 2, 3, 1)
    mixed, _ = layers.attention(g, q, k, v, mask)
    x = g.add(x, _output_projection(g, recipe, weights, name + "self_attn", mixed))
    normed = _norm(g, recipe, weights, name + "post_attention_layernorm", x)
    up = g.add(
        _linear(g, weights, name + "mlp.fc1", normed),
        g.weight(weights[name + "mlp.fc1.bias"], name + "mlp.fc1.bias"),
    )
    down = g.add(
        _linear(g, weights, name + "mlp.fc2", layers.gelu(g, up)),
        g.weight(weights[name + "mlp.fc2.bias"], name + "mlp.fc2.bias"),
    )
    return g.add(x, down)


def _norm(g: GraphWriter, recipe: MoonshineRecipe, weights: Weights, name: str, x: str) -> str:
    return layers.layer_norm(g, x, weights[name + ".weight"], recipe.architecture.norm_epsilon)


def _linear(g: GraphWriter, weights: Weights, name: str, x: str) -> str:
    return g.matmul(x, g.weight(weights[name + ".weight"].T, name + ".weight"))


def _self_projections(
    g: GraphWriter,
    recipe: MoonshineRecipe,
    weights: Weights,
    name: str,
    x: str,
    cosine: str,
    sine: str,
) -> tuple[str, str, str]:
    """Queries (scaled), keys (both rotated, (B,Q,H,D)) and values (B,H,Q,D) of self-attention."""
    shape = recipe.architecture
    heads, padded = shape.heads, shape.padded_head_dim
    name += "self_attn."

    def part(kind: str, rotary: int, scale: float) -> NDArray[np.float32]:
        return layers.heads_last(weights[f"{name}{kind}_proj.weight"], heads, padded, rotary, scale)

    fused = np.concatenate(
        [
            part("q", shape.rotary, shape.head_dim**-0.5),
            part("k", shape.rotary, 1.0),
            part("v", 0, 1.0),
        ],
        axis=1,
    )
    packed = g.matmul(x, g.weight(fused, name + "qkv_proj.weight"))
    qk, v = g.split(packed, [2 * heads * padded, heads * padded], axis=-1)
    qk = g.op("Reshape", qk, g.ints(0, 0, 2 * heads, padded))
    qk = layers.rotate(g, qk, cosine, sine, shape.rotary, padded)
    q, k = g.split(qk, [heads, heads], axis=2)
    return q, k, _as_heads(g, v, heads, padded)


def _as_heads(g: GraphWriter, x: str, heads: int, padded: int) -> str:
    return g.transpose(g.op("Reshape", x, g.ints(0, 0, heads, padded)), 0, 2, 1, 3)


def _output_projection(
    g: GraphWriter, recipe: MoonshineRecipe, weights: Weights, name: str, x: str
) -> str:
    shape = recipe.architecture
    weight = layers.heads_first(
        weights[name + ".o_proj.weight"], shape.heads, shape.padded_head_dim
    )
    return g.matmul(x, g.weight(weight, name + ".o_proj.weight"))


def _cross_memory(g: GraphWriter, recipe: MoonshineRecipe, weights: Weights, x: str) -> None:
    """Keys and values of every decoder layer's cross-attention, from one matrix product."""
    shape = recipe.architecture
    heads, padded = shape.heads, shape.padded_head_dim
    names = [(kind, index) for kind in "kv" for index in range(shape.decoder_layers)]
    fused = np.concatenate(
        [
            layers.heads_last(
                weights[f"model.decoder.layers.{i}.encoder_attn.{kind}_proj.weight"], heads, padded
            )
            for kind, i in names
        ],
        axis=1,
    )
    packed = g.matmul(x, g.weight(fused, "cross_proj.weight"))
    parts = g.split(packed, [heads * padded] * len(names), axis=-1)
    for (kind, index), value in zip(names, parts, strict=True):
        g.output(
            _as_heads(g, value, heads, padded),
            f"memory_{kind}_{index}",
            g.dtype,
            ("B", heads, "T", padded),
        )


def embedding(recipe: MoonshineRecipe, dtype: Any) -> GraphWriter:
    """`tokens` (B,Q), `table` (V,d) → `hidden` (B,Q,d)."""
    shape = recipe.architecture
    g = GraphWriter("embedding", dtype)
    tokens = g.input("tokens", np.int64, ("B", "Q"))
    rows = g.input("table", dtype, (shape.vocabulary, shape.width))
    g.output(g.op("Gather", rows, tokens, axis=0), "hidden", dtype, ("B", "Q", shape.width))
    return g


def decoder_layers(
    recipe: MoonshineRecipe, weights: Weights, dtype: Any, indices: Sequence[int]
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
    g = GraphWriter(f"layers_{indices[0]}_{indices[-1] + 1}", dtype)
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
        self.cosine, self.sine = layers.rotary_tables(
            g, g.unsqueeze(at, 2), shape.rotary, shape.padded_head_dim, shape.theta
        )
        rows = g.constant(np.arange(shape.past, dtype=np.int64))
        offset = g.op("Sub", rows, g.unsqueeze(position, 1))
        self.fresh = self._fresh(offset, queries)
        self.picked = self._picked(offset, queries)
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

    def _picked(self, offset: str, queries: str) -> str:
        """(B,1,S,Q) one-hot: which new row goes into a cache row; a product with it is exact."""
        g = self.g
        equal = g.op("Equal", g.unsqueeze(offset, 2), g.arange(queries))
        return g.unsqueeze(g.cast(equal, g.dtype), 1)

    def layer(self, index: int, x: str) -> tuple[str, str]:
        """One decoder layer; also gives its cross-attention weights (B,H,Q,T)."""
        g, recipe, weights = self.g, self.recipe, self.weights
        name = f"model.decoder.layers.{index}."
        normed = _norm(g, recipe, weights, name + "input_layernorm", x)
        q, k, v = _self_projections(g, recipe, weights, name, normed, self.cosine, self.sine)
        q = g.transpose(q, 0, 2, 1, 3)
        k = self._append(f"k_{index}", g.transpose(k, 0, 2, 1, 3))
        v = self._append(f"v_{index}", v)
        mixed, _ = layers.attention(g, q, g.transpose(k, 0, 1, 3, 2), v, self.causal)
        x = g.add(x, _output_projection(g, recipe, weights, name + "self_attn", mixed))
        x, peaks = self._cross(index, x)
        return g.add(x, self._gated(name, x)), peaks

    def _append(self, name: str, new: str) -> str:
        g, shape = self.g, self.recipe.architecture
        size = ("B", shape.heads, shape.past, shape.padded_head_dim)
        past = g.input(f"past_{name}", g.dtype, size)
        joined = g.op("Where", self.fresh, g.matmul(self.picked, new), past)
        return g.output(joined, f"new_{name}", g.dtype, size)

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
        normed = _norm(g, recipe, weights, name + "post_attention_layernorm", x)
        weight = layers.heads_last(
            weights[name + "encoder_attn.q_proj.weight"], heads, padded, scale=shape.head_dim**-0.5
        )
        q = g.matmul(normed, g.weight(weight, name + "encoder_attn.q_proj.weight"))
        keys = g.transpose(k, 0, 1, 3, 2)
        mixed, peaks = layers.attention(g, _as_heads(g, q, heads, padded), keys, v, self.padding)
        return g.add(x, _output_projection(g, recipe, weights, name + "encoder_attn", mixed)), peaks

    def _gated(self, name: str, x: str) -> str:
        """The gated MLP: fc2(silu(gate) · value)."""
        g, recipe, weights = self.g, self.recipe, self.weights
        normed = _norm(g, recipe, weights, name + "final_layernorm", x)
        both = g.add(
            _linear(g, weights, name + "mlp.fc1", normed),
            g.weight(weights[name + "mlp.fc1.bias"], name + "mlp.fc1.bias"),
        )
        inner = weights[name + "mlp.fc2.weight"].shape[1]
        value, gate = g.split(both, [inner, inner], axis=-1)
        gated = g.mul(g.mul(gate, g.op("Sigmoid", gate)), value)
        return g.add(
            _linear(g, weights, name + "mlp.fc2", gated),
            g.weight(weights[name + "mlp.fc2.bias"], name + "mlp.fc2.bias"),
        )

    def head(self, x: str, align: str) -> None:
        """The best token and how sure it is; the logits stay inside."""
        g, shape = self.g, self.recipe.architecture
        rows = g.input("table", g.dtype, (shape.vocabulary, shape.width))
        normed = _norm(g, self.recipe, self.weights, "model.decoder.norm", x)
        logits = g.wide(g.matmul(normed, g.transpose(rows, 1, 0)))
        best, token = g.split_op("TopK", 2, logits, g.ints(2), axis=-1)
        first, second = g.split(best, [1, 1], axis=-1)
        spread = g.op("ReduceSum", g.op("Exp", g.op("Sub", logits, first)), g.ints(-1), keepdims=1)

        def give(value: str, name: str, dtype: Any) -> None:
            g.output(g.op("Squeeze", value, g.ints(-1)), name, dtype, ("B", "Q"))

        give(g.split(token, [1, 1], axis=-1)[0], "next_token", np.int64)
        give(g.op("Neg", g.op("Log", spread)), "logprob", np.float32)
        give(g.op("Sub", first, second), "margin", np.float32)
        give(g.op("ArgMax", align, axis=-1, keepdims=1), "frame", np.int64)
        g.output(align, "align", np.float32, ("B", "Q", "T"))

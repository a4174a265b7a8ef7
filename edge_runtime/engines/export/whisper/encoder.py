"""The tile of the encoder: audio in, cross-attention keys and values of every layer out."""

from __future__ import annotations

from typing import Any

import numpy as np

from edge_runtime.engines.export import layers
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.export.whisper import blocks
from edge_runtime.engines.export.whisper.blocks import Weights
from edge_runtime.engines.export.whisper.features import log_mel
from edge_runtime.engines.recipe import WhisperRecipe


def encoder(
    recipe: WhisperRecipe, weights: Weights, dtype: Any, *, fused: bool = False
) -> GraphWriter:
    """`audio` (B,N) f32, `length` (B) → `memory_k_i`, `memory_v_i` (B,H,T,D), `memory_length` (B).

    `length` counts samples; N is at least as long as the longest row, fused as long as each. T
    fills the window.
    """
    dims = recipe.architecture
    g = GraphWriter("encoder", dtype, fused=fused)
    audio = g.input("audio", np.float32, ("B", "N"))
    length = g.input("length", np.int64, ("B",))
    mel, steps = log_mel(g, audio, length, dims.mel_bins)
    window = _Window(g, recipe, g.size(mel, 2), steps)
    x = window.convolved(weights, mel)
    for index in range(dims.encoder_layers):
        name = f"model.encoder.layers.{index}."
        normed = blocks.norm(g, recipe, weights, name + "self_attn_layer_norm", x)
        q, k, v = blocks.projection(g, recipe, weights, name + "self_attn", "qkv", normed)
        mixed = layers.self_attention(g, q, k, v, dims.heads, window.mask)
        x = g.add(x, blocks.out(g, recipe, weights, name + "self_attn", mixed))
        x = blocks.mlp(g, recipe, weights, name, x)
    x = blocks.norm(g, recipe, weights, "model.encoder.layer_norm", x)
    _memory(g, recipe, weights, x)
    g.output(window.frames, "memory_length", np.int64, ("B",))
    return g


class _Window:
    """What the encoder sees of each row: all of its context, or the steps that its audio fills.

    `frames` (B) are those of a row, `mask` hides the keys behind them, where there may be some.
    Rows of a batch may fill fewer than the longest: what lies behind is kept from their
    convolutions and from their attention.
    """

    def __init__(self, g: GraphWriter, recipe: WhisperRecipe, size: str, steps: str) -> None:
        """`size` (1) is how long the spectrogram is, `steps` (B) how long that of each row."""
        self._g = g
        dims = recipe.architecture
        self._dims = dims
        self._whole = dims.context == dims.context_step
        self.mask = ""
        if self._whole:
            self._size = g.ints(2 * dims.context)
            self.frames = g.add(g.mul(steps, g.ints(0)), g.ints(dims.context))
            return
        self._size = g.mul(self._filled(size), g.ints(2))
        self.frames = self._filled(steps)
        inside = g.op("Less", g.arange(self._size), g.unsqueeze(g.mul(self.frames, g.ints(2)), 1))
        self._inside = g.unsqueeze(g.narrow(g.cast(inside, np.float32)), 1)
        self.mask = layers.padding_mask(g, g.op("Div", self._size, g.ints(2)), self.frames)

    def convolved(self, weights: Weights, mel: str) -> str:
        """(B,T,d): two convolutions over the window, and positions."""
        g, name = self._g, "model.encoder."
        # One step on either side, as both convolutions see them; these pad nothing themselves.
        missing = g.op("Sub", g.add(self._size, g.ints(1)), g.size(mel, 2))
        pads = g.op("Concat", g.ints(0, 0, 1, 0, 0), missing, axis=0)
        x = g.narrow(g.op("Pad", mel, pads, g.scalar(0.0, np.float32)))
        for number in (1, 2):
            given = [
                g.weight(weights[f"{name}conv{number}.{kind}"], f"{name}conv{number}.{kind}")
                for kind in ("weight", "bias")
            ]
            x = layers.gelu(g, g.op("Conv", x, *given, strides=[number]))
            if number == 1:
                x = x if self._whole else g.mul(x, self._inside)
                x = g.op("Pad", x, g.ints(0, 0, 1, 0, 0, 1), g.scalar(0.0))
        places = g.weight(weights[name + "embed_positions.weight"], name + "embed_positions.weight")
        if not self._whole:
            places = g.op("Slice", places, g.ints(0), g.op("Div", self._size, g.ints(2)), g.ints(0))
        return g.add(g.transpose(x, 0, 2, 1), places)

    def _filled(self, steps: str) -> str:
        """The frames that so many steps of the spectrogram are padded to."""
        g, step = self._g, self._dims.context_step
        up = g.add(steps, g.ints(2 * step - 1))
        return g.mul(g.op("Div", up, g.ints(2 * step)), g.ints(step))


def _memory(g: GraphWriter, recipe: WhisperRecipe, weights: Weights, x: str) -> None:
    """Keys and values of every decoder layer's cross-attention, from one matrix product."""
    dims = recipe.architecture
    heads, padded = dims.heads, dims.padded_head_dim
    names = [f"memory_{kind}_{index}" for kind in "kv" for index in range(dims.decoder_layers)]
    packed = blocks.linear(g, "cross_proj", x, *blocks.memory_weights(recipe, weights))
    parts = g.split(packed, [heads * padded] * len(names), axis=-1)
    for name, value in zip(names, parts, strict=True):
        each = g.op("Reshape", value, g.ints(0, 0, heads, padded))
        size = ("B", heads, recipe.fixed_frames or "T", padded)
        g.output(g.transpose(each, 0, 2, 1, 3), name, g.dtype, size)

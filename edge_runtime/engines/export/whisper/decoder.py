"""Whisper's decoder in tiles: the embedding, and runs of layers with the head in the last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.export.decoder import DecoderTile
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.export.whisper import blocks
from edge_runtime.engines.export.whisper.blocks import Weights
from edge_runtime.engines.recipe import WhisperRecipe

_NEVER = -1e9
"""Added to the logit of a token that may not be said."""


def embedding(recipe: WhisperRecipe, weights: Weights, dtype: Any) -> GraphWriter:
    """`tokens` (B,Q), `position` (B) of the first, `table` (V,d) → `hidden` (B,Q,d)."""
    shape = recipe.architecture
    g = GraphWriter("embedding", dtype)
    tokens = g.input("tokens", np.int64, ("B", "Q"))
    position = g.input("position", np.int64, ("B",))
    rows = g.input("table", dtype, (shape.vocabulary, shape.width))
    at = g.add(g.unsqueeze(position, 1), g.arange(g.size(tokens, 1)))
    # Rows behind a shorter draft may lie past the last position; they are never looked at.
    at = g.op("Min", at, g.ints(shape.positions - 1))
    name = "model.decoder.embed_positions.weight"
    places = g.op("Gather", g.weight(weights[name], name), at, axis=0)
    hidden = g.add(g.op("Gather", rows, tokens, axis=0), places)
    g.output(hidden, "hidden", dtype, ("B", "Q", shape.width))
    return g


def decoder_layers(
    recipe: WhisperRecipe,
    weights: Weights,
    dtype: Any,
    indices: Sequence[int],
    *,
    fused: bool = False,
) -> GraphWriter:
    """A run of decoder layers, as `DecoderTile.write` says.

    The answer to the begin mark tells of the audio: `next_token` is the likeliest language of a
    multilingual model, `logprob` that of nothing being said.
    """
    g = GraphWriter(f"layers_{indices[0]}_{indices[-1] + 1}", dtype, fused=fused)
    _WhisperTile(g, recipe, weights).write(indices)
    return g


class _WhisperTile(DecoderTile):
    """Layers with biases and a plain MLP; marks and signs that are no speech are not said."""

    def __init__(self, g: GraphWriter, recipe: WhisperRecipe, weights: Weights) -> None:
        super().__init__(g, recipe)
        self._of = recipe
        self._weights = weights

    def layer(self, index: int, x: str) -> tuple[str, str]:
        g, recipe, weights = self.g, self._of, self._weights
        name = f"model.decoder.layers.{index}."
        normed = blocks.norm(g, recipe, weights, name + "self_attn_layer_norm", x)
        q, k, v = blocks.projection(g, recipe, weights, name + "self_attn", "qkv", normed)
        k = self.append(f"k_{index}", k)
        v = self.append(f"v_{index}", v)
        mixed, _ = self.attended(q, k, v, self.causal)
        x = g.add(x, blocks.out(g, recipe, weights, name + "self_attn", mixed))
        normed = blocks.norm(g, recipe, weights, name + "encoder_attn_layer_norm", x)
        (q,) = blocks.projection(g, recipe, weights, name + "encoder_attn", "q", normed)
        k, v, padding = self.memory(index)
        mixed, peaks = self.attended(q, k, v, padding, weights=self.aligned(index))
        x = g.add(x, blocks.out(g, recipe, weights, name + "encoder_attn", mixed))
        return blocks.mlp(g, recipe, weights, name, x), peaks

    def normed(self, x: str) -> str:
        return blocks.norm(self.g, self._of, self._weights, "model.decoder.layer_norm", x)

    def allowed(self, logits: str) -> str:
        # The marks are the first rows of a decode: what is special to them is added to few.
        g, count = self.g, len(self._prompt)
        text, special = self._biases()
        logits = g.add(logits, g.constant(text, np.float32))
        at = g.op("Slice", self.at, g.ints(0), g.ints(count), g.ints(1))
        first = g.op("Equal", at, g.ints(count - 1))
        begins = g.op("Equal", at, g.ints(0))
        kind = g.op("Where", begins, g.ints(2), g.op("Where", first, g.ints(1), g.ints(0)))
        few = g.op("Slice", logits, g.ints(0), g.ints(count), g.ints(1))
        few = g.add(few, g.op("Gather", g.constant(special, np.float32), kind, axis=0))
        rest = g.op("Slice", logits, g.ints(count), g.ints(self._of.architecture.past), g.ints(1))
        return g.op("Concat", few, rest, axis=1)

    def told(self, logits: str, logprob: str) -> str:
        """At the begin mark, which is the first row where it is there at all."""
        g = self.g
        row = g.op("Slice", logits, g.ints(0), g.ints(1), g.ints(1))
        most = g.op("ReduceMax", row, axes=[2], keepdims=1)
        spread = g.op("ReduceSum", g.op("Exp", g.op("Sub", row, most)), g.ints(2), keepdims=1)
        silence = g.op("Gather", row, g.ints(self._of.marks.no_speech), axis=2)
        silence = g.op("Sub", g.op("Sub", silence, most), g.op("Log", spread))
        begins = g.unsqueeze(g.op("Equal", self.at, g.ints(0)), 2)
        return g.op("Where", begins, silence, logprob)

    @property
    def _prompt(self) -> tuple[int, ...]:
        marks = self._of.marks
        told = () if marks.first_language is None else (marks.first_language, marks.transcribe)
        return (self._of.architecture.bos, *(each for each in told if each), *marks.closing)

    def _biases(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(V,) for any row, and (3,V) more: for text, its first token, and what is heard."""
        dims, marks = self._of.architecture, self._of.marks
        text = np.zeros(dims.vocabulary, np.float32)
        text[dims.tokens :] = _NEVER
        text[list(marks.suppressed)] = _NEVER
        special = np.zeros((3, dims.vocabulary), np.float32)
        special[1, list(marks.suppressed_first)] = _NEVER
        if marks.first_language is not None:
            special[2] = _NEVER
            languages = slice(marks.first_language, marks.first_language + len(self._of.languages))
            special[2, languages] = 0.0
            assert not text[languages].any(), "languages are suppressed"
        return text, special

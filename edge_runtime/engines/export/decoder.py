"""The tiles of a decoder, whatever the family: runs of layers, their caches, and the head."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from edge_runtime.engines.export import layers
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.recipe import TiledRecipe

_BLOCK = 128
"""Logits that are searched together for the best two."""


class DecoderTile(ABC):
    """What the layers of one tile share: positions, masks, caches; a family adds its layers.

    `at` (B,Q) are the positions of the tokens, `causal` (B,1,Q,S) is added to the scores of
    self-attention.
    """

    def __init__(self, g: GraphWriter, recipe: TiledRecipe) -> None:
        self.g = g
        self.recipe = recipe
        self._padding = ""

    @abstractmethod
    def layer(self, index: int, x: str) -> tuple[str, str]:
        """`x` (B,Q,d) through one layer; also its cross-attention weights (B,H,Q,T)."""

    @abstractmethod
    def normed(self, x: str) -> str:
        """`x` as the head takes it."""

    def placed(self) -> None:
        """Told when `at` is known."""
        return

    def allowed(self, logits: str) -> str:
        """The float32 logits (B,Q,V) of what may be said."""
        return logits

    def told(self, logits: str, logprob: str) -> str:
        """`logprob` (B,Q), or what takes its place: `logits` are all that there are."""
        return logprob

    def write(self, indices: Sequence[int]) -> None:
        """A run of decoder layers, with the head where the last layer is among them.

        `hidden` (B,Q,d), `position` (B) of the first row, `past_k_i`, `past_v_i`
        (B,H,S,D), `memory_k_i`, `memory_v_i` (B,H,T,D), `memory_length` (B) →
        `hidden` for the next tile, or `next_token`, `logprob`, `margin`, `frame`
        (B,Q), `align` (B,Q,T); `new_k_i`, `new_v_i`; `position_next` (B) = position + Q.
        Tiles after one with alignment heads also take the `align_past` it gave. Fused there is
        no `memory_length`: every row fills its memory.
        """
        g, recipe = self.g, self.recipe
        shape = recipe.architecture
        last = indices[-1] + 1 == shape.decoder_layers
        x = g.input("hidden", g.dtype, ("B", "Q", shape.width))
        self._begin(x)
        align = ""
        if any(layer < indices[0] for layer, _ in recipe.alignment_heads):
            align = g.input("align_past", np.float32, ("B", "Q", "T"))
        for index in indices:
            x, peaks = self.layer(index, x)
            chosen = [head for layer, head in recipe.alignment_heads if layer == index]
            if chosen:
                share = _head_mean(g, peaks, chosen, len(recipe.alignment_heads))
                align = g.add(align, share) if align else share
        if align and (not last):
            g.output(align, "align_next", np.float32, ("B", "Q", "T"))
        if last:
            self._head(x, align)
        else:
            g.output(x, "hidden_next", g.dtype, ("B", "Q", shape.width))
        g.output(self._position_next, "position_next", np.int64, ("B",))

    def append(self, name: str, new: str) -> str:
        """The cache (B,H,S,D) with the `new` rows in their places.

        They are (B,Q,H,D), fused (B,Q,H·D).
        """
        g, shape = self.g, self.recipe.architecture
        size = ("B", shape.heads, shape.past, shape.padded_head_dim)
        past = g.input(f"past_{name}", g.dtype, size)
        if g.fused:
            new = g.reshape(new, 0, 0, shape.heads, shape.padded_head_dim)
            written = g.op("ScatterND", past, self._places, new)
            return g.output(written, f"new_{name}", g.dtype, size)
        placed = g.transpose(g.op("GatherND", new, self._source, batch_dims=1), 0, 2, 1, 3)
        return g.output(g.op("Where", self._fresh, placed, past), f"new_{name}", g.dtype, size)

    def memory(self, index: int) -> tuple[str, str, str]:
        """Keys, values (B,H,T,D) and the mask (B,1,1,T) of a layer's cross-attention.

        Fused there is no mask: every row fills its memory.
        """
        g, shape = self.g, self.recipe.architecture
        size = ("B", shape.heads, "T", shape.padded_head_dim)
        k = g.input(f"memory_k_{index}", g.dtype, size)
        v = g.input(f"memory_v_{index}", g.dtype, size)
        if not (g.fused or self._padding):
            self._padding = layers.padding_mask(g, g.size(k, 2), self._length)
        return k, v, self._padding

    def attended(
        self, q: str, k: str, v: str, mask: str, *, weights: bool = False
    ) -> tuple[str, str]:
        """The mix (B,Q,H·D) of values by masked scores, and the weights (B,H,Q,·).

        Queries are (B,Q,H,D), fused (B,Q,H·D); then weights are there only where they are wanted.
        """
        g, shape = self.g, self.recipe.architecture
        if g.fused and not weights:
            return layers.fused_attention(g, q, k, v, shape.heads, mask), ""
        if g.fused:
            q = g.reshape(q, 0, 0, shape.heads, shape.padded_head_dim)
        scores = g.matmul(g.transpose(q, 0, 2, 1, 3), g.transpose(k, 0, 1, 3, 2))
        return layers.attention(g, g.add(scores, mask) if mask else scores, v)

    def aligned(self, index: int) -> bool:
        """Whether heads of that layer say where a token is spoken."""
        return any(layer == index for layer, _ in self.recipe.alignment_heads)

    def _begin(self, hidden: str) -> None:
        g, shape = self.g, self.recipe.architecture
        position = g.input("position", np.int64, ("B",))
        length = "" if g.fused else g.input("memory_length", np.int64, ("B",))
        queries = g.size(hidden, 1)
        self._position_next = g.add(position, queries)
        self.at = g.add(g.unsqueeze(position, 1), g.arange(queries))
        self.placed()
        rows = g.constant(np.arange(shape.past, dtype=np.int64))
        offset = g.op("Sub", rows, g.unsqueeze(position, 1))
        if g.fused:
            self._places = self._cells(g.size(hidden, 0))
        else:
            self._fresh = self._written(offset, queries)
            self._source = self._origin(offset, queries)
        seen = g.op("LessOrEqual", rows, g.unsqueeze(self.at, 2))
        masked = g.op("Where", seen, g.scalar(0.0), g.scalar(layers.MASKED))
        self.causal = g.unsqueeze(masked, 1)
        self._length = length

    def _cells(self, rows: str) -> str:
        """(B,Q,H,3) int64: row, head and place in the cache of what this call writes.

        onnxruntime writes these few where the cache lies, instead of choosing for all of it.
        """
        g, heads = self.g, self.recipe.architecture.heads
        each = np.zeros((heads, 3), np.int64)
        each[:, 1] = np.arange(heads)
        row = g.mul(g.unsqueeze(g.arange(rows), 1, 2, 3), g.ints(1, 0, 0))
        place = g.mul(g.unsqueeze(self.at, 2, 3), g.ints(0, 0, 1))
        return g.add(g.add(row, place), g.constant(each))

    def _written(self, offset: str, queries: str) -> str:
        """(B,1,S,1) bool: cache rows that this call writes."""
        g = self.g
        from_first = g.op("GreaterOrEqual", offset, g.ints(0))
        to_last = g.op("Less", offset, queries)
        return g.unsqueeze(g.op("And", from_first, to_last), 1, 3)

    def _origin(self, offset: str, queries: str) -> str:
        """(B,S,1) int64: which new row goes into a cache row, one that exists."""
        g = self.g
        last = g.op("Sub", queries, g.ints(1))
        return g.unsqueeze(g.op("Min", g.op("Max", offset, g.ints(0)), last), 2)

    def _head(self, x: str, align: str) -> None:
        """The best token and how sure it is; the logits stay inside."""
        g, shape = self.g, self.recipe.architecture
        rows = g.input("table", g.dtype, (shape.vocabulary, shape.width))
        everything = g.wide(g.matmul(self.normed(x), g.transpose(rows, 1, 0)))
        logits = self.allowed(everything)
        first, second, token = best_two(g, logits, shape.vocabulary)
        spread = g.op("ReduceSum", g.op("Exp", g.op("Sub", logits, first)), g.ints(-1), keepdims=1)

        def give(value: str, name: str, dtype: Any) -> None:
            g.output(g.op("Squeeze", value, g.ints(-1)), name, dtype, ("B", "Q"))

        give(token, "next_token", np.int64)
        give(self.told(everything, g.op("Neg", g.op("Log", spread))), "logprob", np.float32)
        give(g.op("Sub", first, second), "margin", np.float32)
        give(g.op("ArgMax", align, axis=-1, keepdims=1), "frame", np.int64)
        g.output(align, "align", np.float32, ("B", "Q", "T"))


def _head_mean(g: GraphWriter, weights: str, heads: Sequence[int], total: int) -> str:
    """The share of these heads in the mean of all alignment heads, (B,Q,T) float32."""
    chosen = g.op("Gather", g.wide(weights), g.ints(*heads), axis=1)
    summed = g.op("ReduceSum", chosen, g.ints(1), keepdims=0)
    return g.mul(summed, g.scalar(1.0 / total, np.float32))


def best_two(g: GraphWriter, logits: str, vocabulary: int) -> tuple[str, str, str]:
    """The two best of (B,Q,V) and where the first is, each (B,Q,1); of equals the first goes first.

    First within blocks, then among their bests: one long row would keep most of a GPU idle.
    """
    count = vocabulary // _BLOCK
    if vocabulary % _BLOCK == 0 and count > 1 and g.fused:
        return _best_block(g, logits, count)
    if vocabulary % _BLOCK:
        best, token = g.split_op("TopK", 2, logits, g.ints(2), axis=-1)
        return _parted(g, best, token)
    blocks = g.reshape(logits, 0, 0, count, _BLOCK)
    each, place = g.split_op("TopK", 2, blocks, g.ints(2), axis=-1)
    firsts = np.arange(0, vocabulary, _BLOCK, dtype=np.int64).reshape(1, 1, count, 1)
    places = g.reshape(g.add(place, g.constant(firsts)), 0, 0, 2 * count)
    best, where = g.split_op("TopK", 2, g.reshape(each, 0, 0, 2 * count), g.ints(2), axis=-1)
    return _parted(g, best, g.op("GatherElements", places, where, axis=-1))


def _best_block(g: GraphWriter, logits: str, count: int) -> tuple[str, str, str]:
    """The same by the highest of each block, which a processor finds sooner than its two best.

    The second best is the second of the best block, or the highest of another.
    """
    highest = g.op("GlobalMaxPool", g.reshape(logits, 0, -1, _BLOCK))
    highest = g.reshape(highest, 0, -1, count)
    _, other, block = _parted(g, *g.split_op("TopK", 2, highest, g.ints(2), axis=-1))
    inside = g.op("GatherND", g.reshape(logits, 0, 0, count, _BLOCK), block, batch_dims=2)
    first, second, place = _parted(g, *g.split_op("TopK", 2, inside, g.ints(2), axis=-1))
    token = g.add(g.mul(block, g.ints(_BLOCK)), place)
    return first, g.op("Max", second, other), token


def _parted(g: GraphWriter, best: str, where: str) -> tuple[str, str, str]:
    """The two best of (B,Q,2), and where the first is."""
    first, second = g.split(best, [1, 1], axis=-1)
    return first, second, g.split(where, [1, 1], axis=-1)[0]

"""What every tile takes and gives: names, dtypes and shapes, as the runner binds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge_runtime.engines.export import PRECISIONS, shape
from edge_runtime.engines.recipe import TiledRecipe
from edge_runtime.errors import DeviceError

Dims = tuple[int | str, ...]


@dataclass(frozen=True)
class Tensor:
    """A dtype and a shape; letters are free dimensions.

    B rows of a batch, N samples, T encoder frames, Q tokens of a pass.
    """

    dtype: np.dtype[Any]
    dims: Dims

    @property
    def open(self) -> tuple[int, ...]:
        """The shape with -1 for the free dimensions, as TensorRT spells it."""
        return tuple(-1 if isinstance(size, str) else size for size in self.dims)

    def sized(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape once every free dimension has its size."""
        return tuple(sizes[size] if isinstance(size, str) else size for size in self.dims)

    def __str__(self) -> str:
        return f"{self.dtype.name}{list(self.open)}"


@dataclass(frozen=True)
class Signature:
    """The tensors of one tile by name."""

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]


def signatures(
    recipe: TiledRecipe, precision: str, *, integer_table: bool = False
) -> dict[str, Signature]:
    """Of all tiles of the recipe, by file name, in the order they run.

    With `integer_table` the embedding table is of 8-bit integers.
    """
    dims = recipe.architecture
    working = np.dtype(PRECISIONS[precision])
    kind = np.dtype(np.int8) if integer_table else working
    table = Tensor(kind, (dims.vocabulary, dims.width))
    count = np.dtype(np.int64)
    placed = {"position": Tensor(count, ("B",))} if recipe.placed else {}
    memory = {
        name: Tensor(working, ("B", dims.heads, recipe.fixed_frames or "T", dims.padded_head_dim))
        for name in _layered("memory", range(dims.decoder_layers))
    }
    made = {
        "encoder": Signature(
            {
                "audio": Tensor(np.dtype(np.float32), ("B", "N")),
                "length": Tensor(count, ("B",)),
            },
            {**memory, "memory_length": Tensor(count, ("B",))},
        ),
        "embedding": Signature(
            {
                "tokens": Tensor(count, ("B", "Q")),
                **placed,
                "table": table,
            },
            {"hidden": Tensor(working, ("B", "Q", dims.width))},
        ),
    }
    for layers in shape(recipe).tiles:
        made[f"layers_{layers.start}_{layers.stop}"] = _decoder(recipe, working, table, layers)
    return made


def _decoder(
    recipe: TiledRecipe, working: np.dtype[Any], table: Tensor, layers: range
) -> Signature:
    dims = recipe.architecture
    wide, count = np.dtype(np.float32), np.dtype(np.int64)
    hidden = Tensor(working, ("B", "Q", dims.width))
    cache = Tensor(working, ("B", dims.heads, dims.past, dims.padded_head_dim))
    memory = Tensor(working, ("B", dims.heads, "T", dims.padded_head_dim))
    align, row, token = Tensor(wide, ("B", "Q", "T")), Tensor(count, ("B",)), ("B", "Q")
    inputs = {"hidden": hidden, "position": row, "memory_length": row}
    inputs |= dict.fromkeys(_layered("past", layers), cache)
    inputs |= dict.fromkeys(_layered("memory", layers), memory)
    outputs = dict.fromkeys(_layered("new", layers), cache) | {"position_next": row}
    if any(layer < layers.start for layer, _ in recipe.alignment_heads):
        inputs["align_past"] = align
    aligned = any(layer < layers.stop for layer, _ in recipe.alignment_heads)
    if layers.stop < dims.decoder_layers:
        outputs["hidden_next"] = hidden
        if aligned:
            outputs["align_next"] = align
        return Signature(inputs, outputs)
    inputs["table"] = table
    outputs["next_token"] = Tensor(count, token)
    outputs |= {name: Tensor(wide, token) for name in ("logprob", "margin")}
    if aligned:
        outputs |= {"frame": Tensor(count, token), "align": align}
    return Signature(inputs, outputs)


def _layered(kind: str, layers: range) -> list[str]:
    return [f"{kind}_{part}_{layer}" for part in "kv" for layer in layers]


def check(tile: str, want: Signature, found: Signature) -> None:
    """Raises `DeviceError` naming the first tensor that is not as the contract says."""
    for kind, wanted, given in (
        ("input", want.inputs, found.inputs),
        ("output", want.outputs, found.outputs),
    ):
        for name in sorted(wanted.keys() | given.keys()):
            one, other = wanted.get(name), given.get(name)
            if one is None or other is None or (one.dtype, one.open) != (other.dtype, other.open):
                raise DeviceError(
                    f"{kind} {name} of {tile} is {other or 'absent'}, not {one or 'wanted'}",
                    "The graph and this program do not belong together: export it again with "
                    "edge-runtime pull MODEL --again.",
                )

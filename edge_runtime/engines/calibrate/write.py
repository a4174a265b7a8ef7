"""A complete folder of graphs in the precisions of a scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import onnx
from numpy.typing import NDArray

from edge_runtime.decode.shape import save_shape
from edge_runtime.engines import weights as readers
from edge_runtime.engines.calibrate import scheme as schemes
from edge_runtime.engines.calibrate.quantise import Spelling, quantised, roundings
from edge_runtime.engines.calibrate.rounding import Rounded
from edge_runtime.engines.calibrate.scheme import TABLE, Scheme
from edge_runtime.engines.calibrate.sites import weights as of_graph
from edge_runtime.engines.calibrate.table import file_content
from edge_runtime.engines.export import PRECISIONS, shape, table, tiles
from edge_runtime.engines.recipe import EncoderDecoderRecipe, TiledRecipe
from edge_runtime.engines.vocabulary import read_vocabulary
from edge_runtime.engines.weights import Weights
from edge_runtime.errors import CalibrationError

Recipe = TypeVar("Recipe", bound=EncoderDecoderRecipe)


@dataclass(frozen=True)
class Floats:
    """The float32 graphs of a model by name, and the weights of all their products."""

    graphs: dict[str, Any]
    weights: dict[str, NDArray[np.float32]]


def floats(recipe: TiledRecipe, arrays: Weights, *, fused: bool = False) -> Floats:
    """What is measured, rounded and searched, from a model's weights.

    With `fused` the graphs are for onnxruntime alone.
    """
    writers = tiles(recipe, arrays, np.float32, fused=fused)
    graphs = {name: made().model() for name, made in writers.items()}
    weights: dict[str, NDArray[np.float32]] = {TABLE: table(recipe, arrays, np.float32)}
    for model in graphs.values():
        weights |= of_graph(model)
    return Floats(graphs, weights)


def unpadded(recipe: Recipe, scheme: Scheme) -> tuple[Recipe, Scheme]:
    """Both with heads as wide as they are: only a GPU's kernels want more.

    Padding is zero, so that nothing else changes, not even what is rounded.
    """
    dims = recipe.architecture
    padded = dims.heads * dims.padded_head_dim
    products = dict(scheme.products)
    for name, product in products.items():
        if name.endswith(("o_proj.weight", "out_proj.weight")) and len(product.smooth) == padded:
            heads = np.array(product.smooth).reshape(dims.heads, -1)[:, : dims.head_dim]
            smooth = tuple(heads.ravel().tolist())
            products[name] = msgspec.structs.replace(product, smooth=smooth)
    dims = msgspec.structs.replace(dims, padded_head_dim=dims.head_dim)
    return msgspec.structs.replace(recipe, architecture=dims), Scheme(products=products)


def write(
    recipe: TiledRecipe,
    weights: Path,
    scheme: Scheme,
    out: Path,
    spelling: Spelling,
    base: str = "fp32",
) -> None:
    """Write tiles, table, shape, vocabulary and the scheme into the folder `out`.

    Unsigned they are for onnxruntime on a CPU alone: heads without padding, its own operators.
    `base` is the floating type of what the scheme leaves alone. Raises as `export` does, and
    `CalibrationError` for a scheme that names products which the model has not.
    """
    write_tiles(recipe, readers.read(recipe, weights), scheme, out, spelling, base)
    (out / "vocabulary.json").write_bytes(msgspec.json.encode(read_vocabulary(weights)))


def write_tiles(
    recipe: TiledRecipe,
    arrays: Weights,
    scheme: Scheme,
    out: Path,
    spelling: Spelling,
    base: str = "fp32",
) -> None:
    """All that `write` writes but the vocabulary."""
    kept, cpu = schemes.encode(scheme), spelling == "unsigned"
    if cpu:
        recipe, scheme = unpadded(recipe, scheme)
    full = floats(recipe, arrays, fused=cpu)
    unknown = scheme.products.keys() - full.weights.keys()
    if unknown:
        raise CalibrationError(
            f"the scheme names {min(unknown)}, which {recipe.name} has not",
            "Calibrate again: it is of another recipe.",
        )
    found = roundings(full.weights, scheme)
    dtype = PRECISIONS[base]
    if dtype is not np.float32:
        writers = tiles(recipe, arrays, dtype, fused=cpu)
        graphs = {name: made().model() for name, made in writers.items()}
        full = Floats(graphs, {**full.weights, TABLE: full.weights[TABLE].astype(dtype)})
    save(recipe, full, scheme, found, out, spelling)
    (out / schemes.FILE).write_bytes(kept)


def save(
    recipe: TiledRecipe,
    full: Floats,
    scheme: Scheme,
    found: Mapping[str, Rounded],
    out: Path,
    spelling: Spelling,
) -> None:
    """The tiles, table and shape of a scheme whose weights are `found`.

    For a CPU all must be `unpadded`, and `full` fused.
    """
    for name, model in full.graphs.items():
        onnx.save(quantised(model, scheme, spelling, found), str(out / f"{name}.onnx"))
    cpu = spelling == "unsigned"
    np.save(out / "table.npy", file_content(full.weights[TABLE], found.get(TABLE), cpu=cpu))
    save_shape(msgspec.structs.replace(shape(recipe), fused=cpu), out)

"""From a model's weights to the graphs that devices run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from edge_runtime.engines.recipe import AnyRecipe, MoonshineRecipe, TransducerRecipe
from edge_runtime.errors import RecipeError

PRECISIONS: dict[str, type[np.floating]] = {"fp32": np.float32, "fp16": np.float16}

Progress = Callable[[str, int, int], None]
"""Told the name of what is written, how many are done, and of how many."""


def export(
    recipe: AnyRecipe,
    weights: Path,
    out: Path,
    precision: str = "fp32",
    progress: Progress = lambda name, done, total: None,
) -> None:
    """Write all graphs of `recipe` from the files in `weights` into the folder `out`.

    Raises `RecipeError` for an unknown precision and `ModelDamaged` for weights
    that do not hold what the recipe says.
    """
    if precision not in PRECISIONS:
        raise RecipeError(f"unknown precision {precision!r}", "Use fp32 or fp16.")
    dtype = PRECISIONS[precision]
    if isinstance(recipe, TransducerRecipe):
        from edge_runtime.engines.export.streaming import transducer

        transducer.export(recipe, weights, out, progress)
        return
    if not isinstance(recipe, MoonshineRecipe):
        from edge_runtime.engines.export import silero

        silero.export(recipe, weights, out)
        progress(recipe.name, 1, 1)
        return
    _export_moonshine(recipe, weights, out, dtype, progress)


def _export_moonshine(
    recipe: MoonshineRecipe, weights: Path, out: Path, dtype: type[np.floating], progress: Progress
) -> None:
    from edge_runtime.engines import weights as readers
    from edge_runtime.engines.export import moonshine
    from edge_runtime.engines.vocabulary import read_vocabulary

    arrays = readers.read(recipe, weights)
    tiles = moonshine.tiles(recipe, arrays, dtype)
    for done, (name, write) in enumerate(tiles.items()):
        progress(name, done, len(tiles))
        write().save(out / f"{name}.onnx")
    np.save(out / "table.npy", moonshine.table(arrays, dtype))
    (out / "shape.json").write_bytes(msgspec.json.encode(moonshine.shape(recipe)))
    (out / "vocabulary.json").write_bytes(msgspec.json.encode(read_vocabulary(weights)))
    progress("done", len(tiles), len(tiles))

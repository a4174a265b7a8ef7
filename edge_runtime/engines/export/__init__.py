"""From a model's weights to the graphs that devices run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.shape import ModelShape, save_shape
from edge_runtime.engines.export import moonshine, whisper
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.recipe import (
    AnyRecipe,
    MoonshineRecipe,
    MoonshineStreamingRecipe,
    SileroRecipe,
    TiledRecipe,
    TransducerRecipe,
    WhisperRecipe,
)
from edge_runtime.engines.weights import Weights
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
    if isinstance(recipe, MoonshineStreamingRecipe):
        from edge_runtime.engines.export.streaming import moonshine as growing

        growing.export(recipe, weights, out, progress)
        return
    if isinstance(recipe, TransducerRecipe):
        from edge_runtime.engines.export.streaming import transducer

        transducer.export(recipe, weights, out, progress)
        return
    if isinstance(recipe, SileroRecipe):
        from edge_runtime.engines.export import silero

        silero.export(recipe, weights, out)
        progress(recipe.name, 1, 1)
        return
    _export_speech(recipe, weights, out, dtype, progress)


def _export_speech(
    recipe: TiledRecipe, weights: Path, out: Path, dtype: type[np.floating], progress: Progress
) -> None:
    from edge_runtime.engines import weights as readers
    from edge_runtime.engines.vocabulary import read_vocabulary

    arrays = readers.read(recipe, weights)
    vocabulary = read_vocabulary(weights)
    if isinstance(recipe, WhisperRecipe):
        vocabulary = whisper.vocabulary(recipe, vocabulary, weights)
    made = tiles(recipe, arrays, dtype)
    for done, (name, write) in enumerate(made.items()):
        progress(name, done, len(made))
        write().save(out / f"{name}.onnx")
    np.save(out / "table.npy", table(recipe, arrays, dtype))
    save_shape(shape(recipe), out)
    (out / "vocabulary.json").write_bytes(msgspec.json.encode(vocabulary))
    progress("done", len(made), len(made))


def tiles(
    recipe: TiledRecipe, weights: Weights, dtype: Any, *, fused: bool = False
) -> dict[str, Callable[[], GraphWriter]]:
    """The writers of all tiles by file name; each is called for one graph at a time.

    With `fused` the graphs are for onnxruntime alone.
    """
    if isinstance(recipe, MoonshineRecipe):
        return moonshine.tiles(recipe, weights, dtype, fused=fused)
    return whisper.tiles(recipe, weights, dtype, fused=fused)


def table(recipe: TiledRecipe, weights: Weights, dtype: Any) -> NDArray[Any]:
    """The embedding table (vocabulary, width), used at both ends of the decoder."""
    if isinstance(recipe, MoonshineRecipe):
        return moonshine.table(weights, dtype)
    return whisper.table(recipe, weights, dtype)


def shape(recipe: TiledRecipe) -> ModelShape:
    """What the runner must know of a model's graphs."""
    if isinstance(recipe, MoonshineRecipe):
        return moonshine.shape(recipe)
    return whisper.shape(recipe)

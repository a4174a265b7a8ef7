"""Readers of published weights, one file per form; all give the same names and shapes."""

from __future__ import annotations

from pathlib import Path

from edge_runtime.engines.recipe import MoonshineRecipe, TiledRecipe
from edge_runtime.engines.sources import Source
from edge_runtime.engines.weights.base import Shapes, Weights, check, moonshine_shapes
from edge_runtime.engines.weights.whisper import whisper_shapes
from edge_runtime.errors import ModelMissing

__all__ = ["Weights", "read"]

_TABLE = "model.decoder.embed_tokens.weight"
_HEAD = "proj_out.weight"


def read(recipe: TiledRecipe, folder: Path) -> Weights:
    """The model's weights, float32, from whichever form of it lies in `folder`.

    Names are those of Hugging Face; `proj_out.weight` is always there, and is
    the very array of `model.decoder.embed_tokens.weight` where the form has
    one table for both ends. Raises `ModelMissing`, or `ModelDamaged` naming
    the tensor that is missing, unknown, of another shape or not finite.
    """
    for source in recipe.sources.named().values():
        if all((folder / file.name).is_file() for file in source.all_files):
            break
    else:
        raise ModelMissing(
            f"{folder} does not hold the weights of {recipe.name}",
            f"Run: edge-runtime pull {recipe.name}",
        )
    weights = _read(source, folder)
    shapes = _shapes(recipe)
    if _TABLE in weights:
        weights.setdefault(_HEAD, weights[_TABLE])
    check(weights, shapes | {_HEAD: shapes[_TABLE]}, folder)
    return weights


def _read(source: Source, folder: Path) -> Weights:
    if source.reader == "safetensors":
        from edge_runtime.engines.weights import safetensors

        return safetensors.read(folder / "model.safetensors")
    if source.reader == "ctranslate2":
        from edge_runtime.engines.weights import ctranslate2

        names = sorted(file.name for file in source.all_files)
        return ctranslate2.read([folder / name for name in names if name.startswith("model.bin")])
    from edge_runtime.engines.weights import ort

    return ort.read(folder / "encoder_model.ort", folder / "decoder_model_merged.ort")


def _shapes(recipe: TiledRecipe) -> Shapes:
    if isinstance(recipe, MoonshineRecipe):
        return moonshine_shapes(recipe.architecture)
    return whisper_shapes(recipe.architecture)

"""Moonshine as tiles: front end, encoder and cross K/V; embedding; decoder layers; head.

Weights come under their Hugging Face names. The architecture is that of
Jeffries et al. 2024, "Moonshine: Speech Recognition for Live Transcription and
Voice Commands".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.shape import ModelShape
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.export.moonshine.blocks import Weights
from edge_runtime.engines.export.moonshine.decoder import decoder_layers, embedding
from edge_runtime.engines.export.moonshine.encoder import encoder
from edge_runtime.engines.export.shape import tiled
from edge_runtime.engines.recipe import MoonshineRecipe

__all__ = ["decoder_layers", "embedding", "encoder", "shape", "table", "tiles"]


def tiles(
    recipe: MoonshineRecipe, weights: Weights, dtype: Any, *, fused: bool = False
) -> dict[str, Callable[[], GraphWriter]]:
    """The writers of all tiles by file name; each is called for one graph at a time.

    With `fused` the graphs are for onnxruntime alone.
    """
    made: dict[str, Callable[[], GraphWriter]] = {
        "encoder": lambda: encoder(recipe, weights, dtype, fused=fused),
        "embedding": lambda: embedding(recipe, dtype),
    }
    for indices in shape(recipe).tiles:
        name = f"layers_{indices.start}_{indices.stop}"
        made[name] = partial(decoder_layers, recipe, weights, dtype, indices, fused=fused)
    return made


def table(weights: Weights, dtype: Any) -> NDArray[Any]:
    """The embedding table (vocabulary, width), used at both ends of the decoder."""
    return np.ascontiguousarray(weights["model.decoder.embed_tokens.weight"], dtype)


def shape(recipe: MoonshineRecipe) -> ModelShape:
    """What the runner must know of these graphs."""
    dims = recipe.architecture
    return tiled(recipe, dims.conv_kernels, dims.conv_strides)

"""Whisper as tiles: spectrogram, encoder and cross K/V; embedding; decoder layers; head.

Weights come under their Hugging Face names. The architecture is that of Radford et
al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.prompt import TRANSCRIBE, Prompt
from edge_runtime.decode.shape import ModelShape
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.export.shape import tiled
from edge_runtime.engines.export.whisper.blocks import Weights
from edge_runtime.engines.export.whisper.decoder import decoder_layers, embedding
from edge_runtime.engines.export.whisper.encoder import encoder
from edge_runtime.engines.export.whisper.features import HOP
from edge_runtime.engines.recipe import WhisperRecipe
from edge_runtime.errors import ModelDamaged

__all__ = ["decoder_layers", "embedding", "encoder", "shape", "table", "tiles", "vocabulary"]

TRANSLATE = "translate"

_TABLE = "model.decoder.embed_tokens.weight"


def tiles(
    recipe: WhisperRecipe, weights: Weights, dtype: Any, *, fused: bool = False
) -> dict[str, Callable[[], GraphWriter]]:
    """The writers of all tiles by file name; each is called for one graph at a time.

    With `fused` the graphs are for onnxruntime alone.
    """
    made: dict[str, Callable[[], GraphWriter]] = {
        "encoder": lambda: encoder(recipe, weights, dtype, fused=fused),
        "embedding": lambda: embedding(recipe, weights, dtype),
    }
    for indices in shape(recipe).tiles:
        name = f"layers_{indices.start}_{indices.stop}"
        made[name] = partial(decoder_layers, recipe, weights, dtype, indices, fused=fused)
    return made


def table(recipe: WhisperRecipe, weights: Weights, dtype: Any) -> NDArray[Any]:
    """The embedding table (vocabulary, width), used at both ends; zeros behind the tokens."""
    dims = recipe.architecture
    padded = np.zeros((dims.vocabulary, dims.width), dtype)
    padded[: dims.tokens] = weights[_TABLE]
    return padded


def vocabulary(recipe: WhisperRecipe, tokens: list[str], path: Path) -> list[str]:
    """`tokens` for every row of the table: those without a text, as times are, say nothing.

    Raises `ModelDamaged` where a mark of the recipe is another token.
    """
    dims, marks = recipe.architecture, recipe.marks
    wanted = {dims.bos: "startoftranscript", dims.eos: "endoftext"}
    if marks.first_language is not None:
        wanted |= {marks.first_language + i: name for i, name in enumerate(recipe.languages)}
        wanted |= {marks.transcribe or 0: TRANSCRIBE, marks.translate or 0: TRANSLATE}
    for number, name in wanted.items():
        if number >= len(tokens) or tokens[number] != f"<|{name}|>":
            raise ModelDamaged(
                f"{path}: token {number} is not <|{name}|>, as {recipe.name} says",
                f"Run: edge-runtime pull {recipe.name} --again",
            )
    return [*tokens, *[""] * (dims.vocabulary - len(tokens))]


def shape(recipe: WhisperRecipe) -> ModelShape:
    """What the runner must know of these graphs."""
    dims, marks = recipe.architecture, recipe.marks
    languages: dict[str, int] = {}
    tasks: dict[str, int] = {}
    if marks.first_language is not None:
        assert marks.transcribe is not None
        assert marks.translate is not None
        languages = {name: marks.first_language + i for i, name in enumerate(recipe.languages)}
        tasks = {TRANSCRIBE: marks.transcribe, TRANSLATE: marks.translate}
    return msgspec.structs.replace(
        # Steps of the spectrogram, then the convolution that takes every other one.
        tiled(recipe, kernels=(HOP, 2), strides=(HOP, 2)),
        prompt=Prompt(languages=languages, tasks=tasks, closing=marks.closing, hears_silence=True),
        window=dims.context_step * 2 * HOP,
        most=dims.context * 2 * HOP,
    )

"""What runners must know of tiles, as far as it is the same for every family."""

from __future__ import annotations

from edge_runtime.decode.shape import ModelShape
from edge_runtime.engines.recipe import TiledRecipe


def tiled(recipe: TiledRecipe, kernels: tuple[int, ...], strides: tuple[int, ...]) -> ModelShape:
    """The recipe's sizes; `kernels` and `strides` are what makes frames of samples."""
    dims = recipe.architecture
    return ModelShape(
        decoder_tiles=recipe.decoder_tiles,
        decoder_layers=dims.decoder_layers,
        width=dims.width,
        heads=dims.heads,
        padded_head_dim=dims.padded_head_dim,
        past=dims.past,
        vocabulary=dims.vocabulary,
        begin=dims.bos,
        end=dims.eos,
        tokens_per_second=dims.tokens_per_second,
        kernels=kernels,
        strides=strides,
        audio_seconds=recipe.buckets.audio_seconds,
        draft_tokens=recipe.buckets.draft_tokens,
    )

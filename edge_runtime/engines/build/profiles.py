"""The ranges of the free dimensions that a plan is made for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edge_runtime.engines.build.contract import Signature
from edge_runtime.engines.export import shape as model_shape
from edge_runtime.engines.recipe import BuiltRecipe, TransducerRecipe
from edge_runtime.errors import ConfigError

USUAL_SAMPLES = 128_000  # 8 s at 16 kHz: what plans are tuned for


@dataclass(frozen=True)
class Range:
    """The least, the usual and the most of a dimension."""

    least: int
    usual: int
    most: int


Ranges = Mapping[str, Range]


def ranges(recipe: BuiltRecipe, rows: int, samples: int) -> Ranges:
    """Of batches of up to `rows` rows of up to `samples` samples, and of the longest draft.

    Raises `ConfigError` where no row fits.
    """
    if isinstance(recipe, TransducerRecipe):
        # Audio goes in by the chunk, however long it is, and one look takes all its tokens.
        return {"B": Range(1, 1, rows), "Q": Range(1, 1, 1)}
    shape = model_shape(recipe)
    frames, shortest = shape.frames, shape.shortest
    if samples < shortest:
        raise ConfigError(
            f"{samples} samples are less than one frame of {recipe.name}",
            f"Build for at least {shortest}.",
        )
    if shape.most and samples > shape.most:
        raise ConfigError(
            f"{recipe.name} hears at most {shape.most / shape.rate:g} s at once",
            f"Build for --seconds {shape.most // shape.rate} or less.",
        )
    usual = min(USUAL_SAMPLES, samples)
    queries = recipe.buckets.draft_tokens[-1]
    return {
        "B": Range(1, 1, rows),
        "N": Range(shortest, usual, samples),
        "T": Range(1, frames(usual), frames(samples)),
        "Q": Range(1, min(16, queries), queries),
    }


def profiles(signature: Signature, most: Ranges, flavour: str) -> tuple[Ranges, ...]:
    """The ranges of each optimisation profile of a tile.

    TensorRT chooses its kernels once for a profile, so that single steps of the decoder
    get one of their own; TensorRT-RTX makes them for each shape at run time.
    """
    decodes = any("Q" in tensor.dims for tensor in signature.inputs.values())
    if flavour != "tensorrt" or not decodes:
        return (most,)
    queries = most["Q"]
    step = {**most, "Q": Range(1, 1, 1)}
    draft = {**most, "Q": Range(1, min(32, queries.most), queries.most)}
    return (step, draft)

"""A published streaming transducer as two graphs: audio to encoded frames, these to tokens."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import onnx

from edge_runtime.decode.chunked.shape import ChunkShape, PageShape, Recurrent
from edge_runtime.decode.shape import save_shape
from edge_runtime.engines.export.streaming import encoder, greedy, published
from edge_runtime.engines.export.streaming.features import STEP
from edge_runtime.engines.export.streaming.published import Transducer
from edge_runtime.engines.recipe import TransducerRecipe
from edge_runtime.engines.vocabulary import read_vocabulary
from edge_runtime.errors import ModelDamaged

MARGIN = 4
"""Steps of the greedy loop beyond one for each frame: tokens that most chunks do not exceed."""

Progress = Callable[[str, int, int], None]


def export(recipe: TransducerRecipe, weights: Path, out: Path, progress: Progress) -> None:
    """Write the graphs of the model in `weights` to `out`; precision stays as published.

    Raises `ModelDamaged` for files that are no streaming transducer, or say too little.
    """
    sources = recipe.sources.named().values()
    names = next(
        (
            [file.name for file in source.files]
            for source in sources
            if all((weights / file.name).is_file() for file in source.files)
        ),
        None,
    )
    model = published.find(weights, names)
    vocabulary = read_vocabulary(weights)
    known = shape(model, recipe, vocabulary)
    progress("encoder", 0, 2)
    _save(encoder.graph(model.encoder), weights, out / "encoder.onnx")
    progress("greedy", 1, 2)
    made = greedy.graph(model, known.blank, recipe.symbols_per_frame, known.steps)
    _save(made, weights, out / "greedy.onnx")
    save_shape(known, out)
    (out / "vocabulary.json").write_bytes(msgspec.json.encode(vocabulary))
    progress("done", 2, 2)


def shape(model: Transducer, recipe: TransducerRecipe, vocabulary: list[str]) -> ChunkShape:
    """How the runner drives it; raises `ModelDamaged` where the vocabulary has no blank."""
    front = encoder.front_end(model.encoder)
    part = model.encoder
    blanks = [number for number, text in enumerate(vocabulary) if text in ("<blk>", "<blank>")]
    if not blanks:
        raise ModelDamaged("tokens.txt has no <blk>", "Take the tokens.txt that came with it.")
    return ChunkShape(
        step=STEP,
        first=front.first,
        length=front.length,
        mirrored=front.mirrored,
        window=part.window,
        shift=part.shift,
        lead=part.lead,
        frames=part.frames,
        width=part.width,
        pages=tuple(PageShape(page.dtype.name, page.size) for page in encoder.pages(part.states)),
        context=model.predictor.context,
        recurrent=tuple(
            Recurrent(encoder.DTYPES[state.dtype].name, state.shape[0], state.shape[2])
            for state in model.predictor.states
        ),
        blank=blanks[0],
        steps=part.frames + MARGIN,
        flush=recipe.flush_ms * 16,
        single=part.single,
        tokens_per_second=recipe.tokens_per_second,
        vocabulary=len(vocabulary),
    )


def _save(model: Any, weights: Path, path: Path) -> None:
    """Write a graph; weights that lie in files of their own are put beside it."""
    entries = [entry for tensor in model.graph.initializer for entry in tensor.external_data]
    for name in {entry.value for entry in entries if entry.key == "location"}:
        # A link would do, but libraries take several names of a file for an attack.
        shutil.copyfile(weights / name, path.parent / name)
    onnx.save(model, str(path))

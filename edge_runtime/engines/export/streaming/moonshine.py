"""A published Moonshine v2: its five programs as they are, and three small ones to drive them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from edge_runtime.decode.growing.shape import PARTS, GrowingShape
from edge_runtime.decode.shape import save_shape
from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.recipe import MoonshineStreamingRecipe
from edge_runtime.engines.vocabulary import read_vocabulary
from edge_runtime.errors import ModelDamaged, ModelMissing

LEFT = 16
"""Vectors before a new one that each layer of the encoder looks at."""

PAST = 128
"""Tokens of the longest text."""

Progress = Callable[[str, int, int], None]


class Told(msgspec.Struct):
    """What `streaming_config.json` tells of a model."""

    encoder_dim: int
    decoder_dim: int
    depth: int
    nheads: int
    head_dim: int
    vocab_size: int
    bos_id: int
    eos_id: int
    total_lookahead: int
    d_model_frontend: int
    c1: int
    frame_len: int = 80


def export(recipe: MoonshineStreamingRecipe, weights: Path, out: Path, progress: Progress) -> None:
    """Write what the runner needs to `out`; precision stays as published.

    Raises `ModelMissing` for a program that is not there, `ModelDamaged` for a description that
    says too little.
    """
    files = {part: _found(weights, part) for part in PARTS}
    known = shape(recipe, weights, files)
    for done, name in enumerate(files.values()):
        progress(name, done, len(files))
        shutil.copyfile(weights / name, out / name)
    for writer in (append(known), cut(known), choose(known)):
        writer.save(out / f"{writer.name}.onnx")
    save_shape(known, out)
    (out / "vocabulary.json").write_bytes(msgspec.json.encode(read_vocabulary(weights)))
    progress("done", len(files), len(files))


def shape(recipe: MoonshineStreamingRecipe, weights: Path, files: dict[str, str]) -> GrowingShape:
    """How the runner drives it."""
    path = weights / "streaming_config.json"
    try:
        told = msgspec.json.decode(path.read_bytes(), type=Told)
    except (OSError, msgspec.MsgspecError) as error:
        raise ModelDamaged(
            f"{path}: {error}", f"Run: edge-runtime pull {recipe.name} --again"
        ) from error
    chunk = 16 * told.frame_len
    return GrowingShape(
        files=files,
        encoder_dim=told.encoder_dim,
        decoder_dim=told.decoder_dim,
        depth=told.depth,
        heads=told.nheads,
        head_dim=told.head_dim,
        vocabulary=told.vocab_size,
        begin=told.bos_id,
        end=told.eos_id,
        ahead=told.total_lookahead,
        left=LEFT * told.depth,
        conv1=told.d_model_frontend,
        conv2=told.c1,
        past=PAST,
        tokens_per_second=recipe.tokens_per_second,
        chunk=chunk,
        # Two convolutions halve the frames, each.
        features=chunk // told.frame_len // 4,
    )


def append(shape: GrowingShape) -> GraphWriter:
    """`k`, `v` and `k_new`, `v_new` (depth, 1, heads, n, head_dim) → `k_next`, `v_next`."""
    g = GraphWriter("append")
    for name in "kv":
        parts = [
            g.input(each, np.float32, _cache(shape, length))
            for each, length in ((name, "M"), (f"{name}_new", "N"))
        ]
        g.output(g.op("Concat", *parts, axis=3), f"{name}_next", np.float32, _cache(shape, "S"))
    return g


def cut(shape: GrowingShape) -> GraphWriter:
    """`k`, `v` (depth, 1, heads, n, head_dim) → the first `keep` (1) of them."""
    g = GraphWriter("cut")
    keep = g.input("keep", np.int64, [1])
    for name in "kv":
        whole = g.input(name, np.float32, _cache(shape, "M"))
        kept = g.op("Slice", whole, g.ints(0), keep, g.ints(3))
        g.output(kept, f"{name}_next", np.float32, _cache(shape, "S"))
    return g


def choose(shape: GrowingShape) -> GraphWriter:
    """`logits` (1, Q, vocabulary) → `next_token`, its `logprob`, its `margin`, each (1, Q)."""
    g = GraphWriter("choose")
    logits = g.input("logits", np.float32, [1, "Q", shape.vocabulary])
    values, places = g.split_op("TopK", 2, logits, g.ints(2), axis=-1)
    best, second = g.split(values, [1, 1], axis=2)
    total = g.op("ReduceLogSumExp", logits, axes=[-1], keepdims=1)
    found = {
        "next_token": g.split(places, [1, 1], axis=2)[0],
        "logprob": g.op("Sub", best, total),
        "margin": g.op("Sub", best, second),
    }
    for name, value in found.items():
        dtype = np.int64 if name == "next_token" else np.float32
        g.output(g.op("Squeeze", value, g.ints(2)), name, dtype, [1, "Q"])
    return g


def _cache(shape: GrowingShape, length: str) -> list[int | str]:
    return [shape.depth, 1, shape.heads, length, shape.head_dim]


def _found(weights: Path, part: str) -> str:
    """The file of a program: in onnxruntime's own form, or as a graph."""
    for suffix in (".ort", ".onnx"):
        if (weights / f"{part}{suffix}").is_file():
            return f"{part}{suffix}"
    raise ModelMissing(
        f"{weights} has no {part}.ort and no {part}.onnx",
        "Take all five programs of the streaming model.",
    )

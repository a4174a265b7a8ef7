"""What the two graphs of a streaming transducer take and give, as its runner binds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.decode.chunked.shape import ChunkShape
from edge_runtime.decode.shape import load_shape
from edge_runtime.engines.build.contract import Signature, Tensor

_COUNT, _REAL = np.dtype(np.int64), np.dtype(np.float32)


def signatures(graphs: Path) -> dict[str, Signature]:
    """Of the model in a folder of graphs; raises `ModelMissing` or `ModelDamaged`."""
    shape = load_shape(graphs, ChunkShape)
    return {"encoder": _encoder(shape), "greedy": _greedy(shape)}


def _encoder(shape: ChunkShape) -> Signature:
    pages = {
        f"page_{page.dtype}": Tensor(np.dtype(page.dtype), ("B", page.size)) for page in shape.pages
    }
    return Signature(
        {"audio": Tensor(_REAL, ("B", shape.samples)), "blank": Tensor(_COUNT, ("B",)), **pages},
        {"encoded": _encoded(shape), **_next(pages)},
    )


def _greedy(shape: ChunkShape) -> Signature:
    state = {
        "cursor": Tensor(_COUNT, ("B",)),
        "given": Tensor(_COUNT, ("B",)),
        "tokens": Tensor(_COUNT, ("B", shape.context)),
    }
    for number, each in enumerate(shape.recurrent):
        size = ("B", each.layers, each.width)
        state[f"recurrent_{number}"] = Tensor(np.dtype(each.dtype), size)
    kinds: dict[str, np.dtype[Any]] = {
        "token": _COUNT,
        "frame": _COUNT,
        "logprob": _REAL,
        "margin": _REAL,
    }
    answers = {name: Tensor(dtype, ("B", shape.steps)) for name, dtype in kinds.items()}
    frames = Tensor(_COUNT, ("B",))
    return Signature(
        {"encoded": _encoded(shape), "frames": frames, **state}, {**answers, **_next(state)}
    )


def _encoded(shape: ChunkShape) -> Tensor:
    return Tensor(_REAL, ("B", shape.frames, shape.width))


def _next(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{name}_next": tensor for name, tensor in state.items()}

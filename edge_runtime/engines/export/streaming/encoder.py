"""The published encoder between a front end and pages of state: audio in, one page in, one out.

All states of a stream lie one behind the other in its page, a page for each type of number, so
that a stream is one row of a batch whichever axis the encoder has for streams.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.export.streaming import graft
from edge_runtime.engines.export.streaming.features import STEP, FrontEnd, kaldi, nemo
from edge_runtime.engines.export.streaming.published import Encoder, State

DTYPES: dict[int, np.dtype[Any]] = {
    TensorProto.FLOAT: np.dtype(np.float32),
    TensorProto.INT64: np.dtype(np.int64),
    TensorProto.INT32: np.dtype(np.int32),
}
_PREFIX = "published/"


@dataclass(frozen=True)
class Page:
    """The states of one type: where they begin in a page of `size` numbers."""

    dtype: np.dtype[Any]
    states: tuple[State, ...]
    size: int


def front_end(encoder: Encoder) -> FrontEnd:
    """What makes its features of audio: what its publisher's training did."""
    return nemo(encoder.bins) if encoder.nemo else kaldi(encoder.bins)


def pages(states: Sequence[State]) -> list[Page]:
    """The states by type, in the order of their names in the graph."""
    found = []
    for kind, dtype in DTYPES.items():
        same = tuple(state for state in states if state.dtype == kind)
        if same:
            found.append(Page(dtype, same, sum(math.prod(state.shape) for state in same)))
    return found


def graph(encoder: Encoder) -> Any:
    """The model: its weights stay where the published file has them.

    `audio` (B, samples) and `blank` (B) as `FrontEnd.write` takes them, `page_…` (B, size) for
    each type → `encoded` (B, frames, width) and `page_…_next`.
    """
    front = front_end(encoder)
    samples = (encoder.window - 1) * STEP + front.length
    g = GraphWriter("encoder")
    audio = g.input("audio", np.float32, ["B", samples])
    blank = g.input("blank", np.int64, ["B"])
    features = front.write(g, audio, blank, encoder.window)
    kept = {encoder.features: g.transpose(features, 0, 2, 1) if encoder.bands_first else features}
    if encoder.length is not None:
        none = g.mul(blank, g.ints(0))
        kept[encoder.length.name] = g.cast(
            g.add(none, g.ints(encoder.window)), DTYPES[encoder.length.dtype]
        )
    groups = pages(encoder.states)
    for page in groups:
        name = f"page_{page.dtype.name}"
        _open(g, page, g.input(name, page.dtype, ["B", page.size]), kept)
    before = g.model().graph
    return _joined(encoder, before, kept, groups)


def _open(g: GraphWriter, page: Page, whole: str, kept: dict[str, str]) -> None:
    """Cut the states out of a page, each with the streams on its own axis."""
    at = 0
    for state in page.states:
        size = math.prod(state.shape)
        cut = g.op("Slice", whole, g.ints(at), g.ints(at + size), g.ints(1))
        rest = [length for place, length in enumerate(state.shape) if place != state.axis]
        shaped = g.reshape(cut, -1, *rest)
        order = [*range(1, state.axis + 1), 0, *range(state.axis + 1, len(state.shape))]
        kept[state.given] = g.transpose(shaped, *order) if state.axis else shaped
        at += size


def _joined(encoder: Encoder, before: Any, kept: dict[str, str], groups: list[Page]) -> Any:
    """Front end, published graph and closing of the pages as one model."""
    nodes, weights = graft.renamed(encoder.file.model.graph, _PREFIX, kept)
    after = GraphWriter("after")
    outputs = [_output("encoded", np.dtype(np.float32), ["B", encoder.frames, encoder.width])]
    encoded = _PREFIX + encoder.encoded
    if encoder.width_first:
        encoded = after.transpose(encoded, 0, 2, 1)
    # Also says how many frames there are, where the published graph leaves that open.
    named = {after.reshape(encoded, -1, encoder.frames, encoder.width): "encoded"}
    for page in groups:
        flat = []
        for state in page.states:
            value = _PREFIX + state.taken
            rank = len(state.shape)
            order = [state.axis, *(place for place in range(rank) if place != state.axis)]
            moved = after.transpose(value, *order) if state.axis else value
            flat.append(after.reshape(moved, -1, math.prod(state.shape)))
        name = f"page_{page.dtype.name}_next"
        named[after.op("Concat", *flat, axis=1)] = name
        outputs.append(_output(name, page.dtype, ["B", page.size]))
    behind = after.model().graph
    outside = {each: each for node in behind.node for each in node.input if "/" in each}
    tail, constants = graft.renamed(behind, "after/", outside | named)
    made = helper.make_graph(
        [*before.node, *nodes, *tail],
        "encoder",
        list(before.input),
        outputs,
        [*before.initializer, *weights, *constants],
    )
    return graft.model(made, [encoder.file.model], encoder.file.notes)


def _output(name: str, dtype: np.dtype[Any], shape: Sequence[int | str]) -> Any:
    return helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(dtype), shape)

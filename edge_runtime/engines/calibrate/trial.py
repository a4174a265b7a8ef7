"""A model in a scheme that is tried: what it answers to clips whose text is known, and how fast."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
from numpy.typing import NDArray

from edge_runtime.audio.ring import Samples
from edge_runtime.decode.shape import ModelShape
from edge_runtime.engines.calibrate.quantise import quantised, roundings
from edge_runtime.engines.calibrate.rounding import Rounded
from edge_runtime.engines.calibrate.scheme import TABLE, Scheme
from edge_runtime.engines.calibrate.sites import sites
from edge_runtime.engines.calibrate.table import file_content
from edge_runtime.engines.calibrate.write import Floats, floats, save, unpadded
from edge_runtime.engines.export import shape
from edge_runtime.engines.recipe import TiledRecipe
from edge_runtime.engines.weights import Weights

CHECKED = 25
"""Tokens of the draft that is timed: what eight seconds of speech hold."""

STEPS = 2
"""Single tokens after it."""

_REPEATS = 5


@dataclass(frozen=True)
class Spoken:
    """A clip and the text that the unquantised model writes: tokens without marks."""

    samples: Samples
    tokens: tuple[int, ...]


class Change(msgspec.Struct, frozen=True):
    """What a scheme does to the output: the relative error of the logits, and how much less
    likely the unquantised text becomes, in nats a token."""

    error: float
    nats: float


class Trial:
    """The graphs that a CPU runs, in whatever scheme is asked for.

    A graph that a scheme leaves alone is loaded once.
    """

    def __init__(self, recipe: TiledRecipe, arrays: Weights, clips: Sequence[Spoken]) -> None:
        """`clips` are a few, of speech."""
        self.recipe, _ = unpadded(recipe, Scheme(products={}))
        self.full: Floats = floats(self.recipe, arrays, fused=True)
        self._padded = recipe
        self._shape: ModelShape = shape(self.recipe)
        self._clips = clips
        self._sites = {
            name: {site.name for site in sites(model)} for name, model in self.full.graphs.items()
        }
        self._head = next(
            site.output
            for model in self.full.graphs.values()
            for site in sites(model)
            if site.kind == "head"
        )
        self._rounded: dict[tuple[str, tuple[float, ...]], Rounded] = {}
        self._plain: dict[str, Any] = {}
        self._memories: list[dict[str, Any]] = []
        plain = self._made(Scheme(products={}))
        self._memories = [plain.encode(clip.samples) for clip in clips]
        self._logits = [
            plain.logits(memory, self._fed(clip))
            for memory, clip in zip(self._memories, clips, strict=True)
        ]

    def change(self, scheme: Scheme, most: int | None = None) -> Change:
        """Against the model as it is, over all clips or the first few."""
        made = self._made(scheme)
        touched = bool(self._sites["encoder"] & scheme.products.keys())
        lost = power = nats = 0.0
        count = 0
        known = zip(self._clips, self._memories, self._logits, strict=True)
        for clip, memory, wanted in islice(known, most):
            heard = made.encode(clip.samples) if touched else memory
            given = made.logits(heard, self._fed(clip))
            # a constant added to all logits changes nothing
            error = given - wanted
            lost += float(np.square(error - error.mean(-1, keepdims=True)).sum(dtype=np.float64))
            centred = wanted - wanted.mean(-1, keepdims=True)
            power += float(np.square(centred).sum(dtype=np.float64))
            said = np.array([*clip.tokens, self._shape.end])[: len(wanted)]
            less = _likely(wanted, said) - _likely(given, said)
            nats += float(less.sum())
            count += len(said)
        return Change(float(np.sqrt(lost / power)), nats / count)

    def seconds(self, scheme: Scheme) -> float:
        """The least time of a typical update of the first clip: encode, check, a few steps."""
        made, clip = self._made(scheme), self._clips[0]
        memory = made.encode(clip.samples)
        draft = [*self._shape.opening(), *range(3, CHECKED + 2)][: self._shape.longest]
        return (
            _least(lambda: made.encode(clip.samples))
            + _least(lambda: made.logits(memory, draft))
            + STEPS * _least(lambda: made.logits(memory, draft[:1]))
        )

    def write(self, scheme: Scheme, out: Path) -> None:
        """The tiles, table and shape of the model in a scheme: what `write` would write."""
        _, scheme = unpadded(self._padded, scheme)
        save(self.recipe, self.full, scheme, self._found(scheme), out, "unsigned")

    def _fed(self, clip: Spoken) -> list[int]:
        return [*self._shape.opening(), *clip.tokens][: self._shape.widest]

    def _found(self, scheme: Scheme) -> dict[str, Rounded]:
        """The rounded weights; each only once."""
        found = {}
        for name in self.full.weights:
            product = scheme.rounded(name)
            if product is None:
                continue
            key = (name, product.smooth)
            if key not in self._rounded:
                one = Scheme(products={name: product})
                self._rounded[key] = roundings({name: self.full.weights[name]}, one)[name]
            found[name] = self._rounded[key]
        return found

    def _made(self, scheme: Scheme) -> _Made:
        _, scheme = unpadded(self._padded, scheme)
        found = self._found(scheme)
        sessions = {}
        for name, model in self.full.graphs.items():
            if self._sites[name] & scheme.products.keys():
                made = quantised(model, scheme, "unsigned", found)
                sessions[name] = _session(_whole(made, found, self._head))
                continue
            if name not in self._plain:
                copy = onnx.ModelProto()
                copy.CopyFrom(model)
                self._plain[name] = _session(_whole(copy, {}, self._head))
            sessions[name] = self._plain[name]
        table = file_content(self.full.weights[TABLE], found.get(TABLE), cpu=True)
        return _Made(sessions, table, self._shape, self._head)


@dataclass(frozen=True)
class _Made:
    """The sessions of a model's tiles, in order."""

    sessions: Mapping[str, Any]
    table: NDArray[Any]
    shape: ModelShape
    head: str

    def encode(self, samples: Samples) -> dict[str, Any]:
        """The memory of (n,) samples."""
        length = np.array([len(samples)], np.int64)
        return _run(self.sessions["encoder"], {"audio": samples[None], "length": length})

    def logits(self, memory: Mapping[str, Any], fed: Sequence[int]) -> NDArray[np.float32]:
        """(tokens, vocabulary) in one pass from the beginning: what follows all marks, and on."""
        shape = self.shape
        tokens = {"tokens": np.array([fed], np.int64), "table": self.table}
        values: dict[str, Any] = {**memory, **tokens, "position": np.zeros(1, np.int64)}
        values |= _run(self.sessions["embedding"], values)
        size = (1, shape.heads, shape.past, shape.padded_head_dim)
        empty = np.zeros(size, np.float32)
        for layers in shape.tiles:
            session = self.sessions[f"layers_{layers.start}_{layers.stop}"]
            past = {
                each.name: empty for each in session.get_inputs() if each.name.startswith("past_")
            }
            given = _run(session, {**values, **past})
            values["hidden"] = given.get("hidden_next")
            values["align_past"] = given.get("align_next")
        told = min(len(fed), len(shape.opening())) - 1
        logits: NDArray[np.float32] = given[self.head][0][told:]
        return logits


def _run(session: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    fed = {each.name: values[each.name] for each in session.get_inputs()}
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(None, fed), strict=True))


def _session(model: Any) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    content = model.SerializeToString()
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _whole(model: Any, found: Mapping[str, Rounded], head: str) -> Any:
    """The graph with its logits as one more output, and all of its weights inside."""
    kind = onnx.TensorProto
    if any(head in node.output for node in model.graph.node):
        value = onnx.helper.make_tensor_value_info(head, kind.FLOAT, None)
        model.graph.output.append(value)
    for tensor in model.graph.initializer:
        if tensor.data_location == kind.EXTERNAL:
            values = np.ascontiguousarray(found[TABLE].values)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    return model


def _likely(logits: NDArray[np.float32], tokens: NDArray[np.int64]) -> NDArray[np.float64]:
    """(tokens,) log-probabilities in (tokens, vocabulary)."""
    logits = logits[: len(tokens)].astype(np.float64)
    top = logits.max(-1, keepdims=True)
    total = np.log(np.exp(logits - top).sum(-1)) + top[:, 0]
    found: NDArray[np.float64] = logits[np.arange(len(tokens)), tokens] - total
    return found


def _least(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)

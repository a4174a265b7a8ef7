"""The greedy loop over a chunk's frames as one graph: predictor and joiner put in step by step.

A step asks the joiner about the frame that its row's cursor points to. What is not blank is a
token and moves the predictor; blank, or as many tokens of one frame as the model may give, moves
the cursor. Rows go at their own pace. `steps` are enough for most chunks: where a cursor has not
come to the end, the same graph is run again from there, so that no text depends on their number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from edge_runtime.engines.export.graph import GraphWriter
from edge_runtime.engines.export.streaming import graft
from edge_runtime.engines.export.streaming.encoder import DTYPES
from edge_runtime.engines.export.streaming.published import Joiner, Predictor, Published, Transducer

_ANSWERS = {"token": np.int64, "frame": np.int64, "logprob": np.float32, "margin": np.float32}

Row = dict[str, str]
"""The values that steps hand on, by what they are."""


def graph(model: Transducer, blank: int, symbols: int, steps: int) -> Any:
    """The model of the loop.

    `encoded` (B, frames, width), `frames` (B): how many of them count; of a row's state `cursor`
    (B): the next frame, `given` (B): tokens it gave so far, `tokens` (B, context): the last ones,
    `recurrent_…` (B, layers, width) → `cursor_next` and so on, and for each step (B, steps) a
    `token`, `blank` where there is none, its `frame`, `logprob` and `margin` over the second best.
    """
    return _Writer(model, blank, symbols, steps).graph()


class _Writer:
    def __init__(self, model: Transducer, blank: int, symbols: int, steps: int) -> None:
        self._model = model
        self._blank = blank
        self._symbols = symbols
        self._steps = steps
        self._g = GraphWriter("greedy")
        self._inner: list[tuple[Any, str, dict[str, str]]] = []
        self._predictor = graft.current(model.predictor.file.model)
        self._joiner = graft.current(model.joiner.file.model)

    def graph(self) -> Any:
        g, encoder, predictor = self._g, self._model.encoder, self._model.predictor
        width = encoder.width
        encoded = g.input("encoded", np.float32, ["B", encoder.frames, width])
        frames = g.input("frames", np.int64, ["B"])
        row: Row = {
            "cursor": g.input("cursor", np.int64, ["B"]),
            "given": g.input("given", np.int64, ["B"]),
            "tokens": g.input("tokens", np.int64, ["B", predictor.context]),
        }
        for number, state in enumerate(predictor.states):
            row[f"recurrent_{number}"] = g.input(
                f"recurrent_{number}", DTYPES[state.dtype], ["B", state.shape[0], state.shape[2]]
            )
        carried = list(row)
        row |= self._predict(row, "start")
        answers: list[list[str]] = []
        for step in range(self._steps):
            row, answer = self._step(row, encoded, frames, step)
            answers.append(answer)
        for place, (name, kind) in enumerate(_ANSWERS.items()):
            column = [answer[place] for answer in answers]
            g.output(g.op("Concat", *column, axis=1), name, kind, ["B", self._steps])
        for name in carried:
            shape = next(each for each in g.model().graph.input if each.name == name)
            dims = [dim.dim_param or dim.dim_value for dim in shape.type.tensor_type.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(shape.type.tensor_type.elem_type)
            g.output(row[name], f"{name}_next", dtype, dims)
        return self._whole()

    def _step(self, row: Row, encoded: str, frames: str, step: int) -> tuple[Row, list[str]]:
        g = self._g
        last = g.ints(self._model.encoder.frames - 1)
        going = g.op("Less", row["cursor"], frames)
        at = g.op("Min", row["cursor"], last)
        # A product with a one picks the frame: no gathering by row that every TensorRT can read.
        places = g.constant(np.arange(self._model.encoder.frames)[None], np.int64)
        picked = g.cast(g.op("Equal", g.unsqueeze(at, 1), places), np.float32)
        one = g.op("Squeeze", g.matmul(g.unsqueeze(picked, 1), encoded), g.ints(1))
        token, logprob, margin = self._best(self._join(one, row["predicted"], f"join{step}"))
        spoken = g.op("And", going, g.op("Not", g.op("Equal", token, g.ints(self._blank))))
        told = g.op("Where", spoken, token, g.ints(self._blank))
        given = g.add(row["given"], g.ints(1))
        full = g.op("Not", g.op("Less", given, g.ints(self._symbols)))
        stays = g.op("And", spoken, g.op("Not", full))
        after: Row = {
            "cursor": g.op(
                "Where", g.op("And", going, g.op("Not", stays)),
                g.add(row["cursor"], g.ints(1)), row["cursor"],
            ),
            "given": g.op(
                "Where", stays, given, g.op("Where", going, g.ints(0), row["given"])
            ),
        }  # fmt: skip
        context = self._model.predictor.context
        fresh = g.unsqueeze(token, 1)
        if context > 1:
            older = g.op("Slice", row["tokens"], g.ints(1), g.ints(context), g.ints(1))
            fresh = g.op("Concat", older, fresh, axis=1)
        after["tokens"] = g.op("Where", g.unsqueeze(spoken, 1), fresh, row["tokens"])
        wide = g.unsqueeze(spoken, 1, 2)
        for number in range(len(self._model.predictor.states)):
            name = f"recurrent_{number}"
            after[name] = g.op("Where", wide, row[f"{name}_after"], row[name])
        last_step = step + 1 == self._steps
        after |= {} if last_step else self._predict(after, f"predict{step}")
        answer = [g.unsqueeze(each, 1) for each in (told, row["cursor"], logprob, margin)]
        return after, answer

    def _best(self, logits: str) -> tuple[str, str, str]:
        """The best token of (B, vocabulary), its log-probability, its lead over the second."""
        g = self._g
        values, places = g.split_op("TopK", 2, logits, g.ints(2), axis=-1)
        best, second = g.split(values, [1, 1], axis=1)
        token = g.op("Squeeze", g.split(places, [1, 1], axis=1)[0], g.ints(1))
        # The logarithm of a sum as every opset has it; published graphs may be of a later one.
        apart = g.op("Exp", g.op("Sub", logits, best))
        total = g.op("Log", g.op("ReduceSum", apart, g.ints(1), keepdims=0))
        logprob = g.op("Neg", total)
        return token, logprob, g.op("Squeeze", g.op("Sub", best, second), g.ints(1))

    # -- the published graphs

    def _predict(self, row: Row, name: str) -> Row:
        """What the predictor says after the row's tokens, and its states then."""
        g, predictor = self._g, self._model.predictor
        kept = {predictor.tokens.name: g.cast(row["tokens"], DTYPES[predictor.tokens.dtype])}
        for lengths in predictor.lengths:
            ones = g.add(g.mul(row["cursor"], g.ints(0)), g.ints(predictor.context))
            kept[lengths.name] = g.cast(ones, DTYPES[lengths.dtype])
        for number, state in enumerate(predictor.states):
            kept[state.given] = g.transpose(row[f"recurrent_{number}"], 1, 0, 2)
        self._put(self._predictor.graph, name, kept, predictor.file)
        after: Row = {"predicted": f"{name}/{predictor.predicted}"}
        for number, state in enumerate(predictor.states):
            taken = g.transpose(f"{name}/{state.taken}", 1, 0, 2)
            after[f"recurrent_{number}_after"] = taken
        return after

    def _join(self, encoded: str, predicted: str, name: str) -> str:
        """Logits (B, vocabulary) for one encoded vector (B, width) of each row."""
        g, joiner = self._g, self._model.joiner
        kept = {
            joiner.encoded.name: _lifted(g, encoded, joiner.encoded.shape),
            joiner.predicted.name: _fitted(g, predicted, self._model.predictor, joiner),
        }
        self._put(self._joiner.graph, name, kept, joiner.file)
        return g.op("Flatten", f"{name}/{joiner.logits}", axis=1)

    def _put(self, graph: Any, name: str, kept: dict[str, str], file: Published) -> None:
        """Have a published graph put in here; its weights are shared by all steps."""
        shared = {each.name: f"{file.path.stem}/{each.name}" for each in graph.initializer}
        self._inner.append((graph, f"{name}/", shared | kept))

    def _whole(self) -> Any:
        """All nodes in an order in which each comes after what it needs."""
        outer = self._g.model()
        nodes, weights = list(outer.graph.node), list(outer.graph.initializer)
        shared: dict[str, Any] = {}
        for graph, prefix, kept in self._inner:
            inside, own = graft.renamed(graph, prefix, kept)
            nodes += inside
            shared |= {weight.name: weight for weight in own}
        known = {each.name for each in outer.graph.input} | set(shared) | {w.name for w in weights}
        made = helper.make_graph(
            _ordered(nodes, known), "greedy", list(outer.graph.input),
            list(outer.graph.output), [*weights, *shared.values()],
        )  # fmt: skip
        parts = (outer, self._predictor, self._joiner)
        return graft.model(made, parts)


def _lifted(g: GraphWriter, vector: str, shape: tuple[int | None, ...]) -> str:
    """A vector (B, width) as the joiner wants it: by itself, or with one frame (B, width, 1)."""
    return vector if len(shape) == 2 else g.unsqueeze(vector, 2)


def _fitted(g: GraphWriter, predicted: str, predictor: Predictor, joiner: Joiner) -> str:
    outputs = {each.name: each for each in predictor.file.outputs}
    given, wanted = outputs[predictor.predicted].shape, joiner.predicted.shape
    if len(given) == len(wanted):
        return predicted
    return g.op("Flatten", predicted, axis=1) if len(wanted) == 2 else g.unsqueeze(predicted, 2)


def _ordered(nodes: list[Any], known: set[str]) -> list[Any]:
    """The nodes sorted so that each comes after those whose outputs it takes."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    done: set[int] = set()
    order: list[Any] = []
    for root in range(len(nodes)):
        stack = [root]
        while stack:
            index = stack[-1]
            if index in done:
                stack.pop()
                continue
            needed = _needs(nodes[index])
            waiting = [
                makers[name]
                for name in needed
                if name in makers and name not in known and makers[name] not in done
            ]
            if waiting:
                stack += waiting
                continue
            done.add(index)
            order.append(nodes[index])
            stack.pop()
    return order


def _needs(node: Any) -> list[str]:
    """What a node takes, graphs within it included."""
    needed = list(node.input)
    for attribute in node.attribute:
        for graph in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
            for inner in graph.node:
                needed += _needs(inner)
    return needed

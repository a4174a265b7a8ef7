"""A graph while it is rewritten: nodes and constants are added, what nothing reads is dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.engines.calibrate.scheme import TABLE


class Rewriting:
    """The nodes of a graph as they came, and those that take their place."""

    def __init__(self, model: Any, dtype: np.dtype[Any]) -> None:
        """`dtype` is the floating type of the graph's products. `model` is changed."""
        self.graph = model.graph
        self.dtype = dtype
        self.made: list[Any] = []
        self.constants = {tensor.name: tensor for tensor in self.graph.initializer}
        self.writers = {name: node for node in self.graph.node for name in node.output}
        self.readers: dict[str, list[Any]] = {}
        for node in self.graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def keep(self, node: Any) -> None:
        self.made.append(node)

    def op(self, kind: str, *inputs: str, out: str, **attributes: Any) -> str:
        """A new node with one output, whose name is also its own."""
        self.made.append(helper.make_node(kind, inputs, [out], out, **attributes))
        return out

    def constant(self, name: str, array: Any) -> str:
        """A constant of that name; the first one of a name stays."""
        if name not in self.constants:
            self.set(name, array)
        return name

    def set(self, name: str, array: Any) -> None:
        """Make an initializer `array`, whatever it was before."""
        self.constants[name] = numpy_helper.from_array(np.array(array, order="C"), name)

    def value(self, name: str) -> NDArray[Any]:
        """The content of an initializer."""
        return numpy_helper.to_array(self.constants[name])

    def ints(self, name: str, *values: int) -> str:
        return self.constant(name, np.array(values, np.int64))

    def zeros(self, *shape: int) -> str:
        """Zero points of int8.

        They are never left out: onnxruntime takes values for uint8 where it moves a pair
        without them across a transposition.
        """
        return self.constant("_".join(map(str, ("zeros", *shape))), np.zeros(shape, np.int8))

    def table_is_int8(self, *shape: int) -> None:
        """Make the input that holds the embedding table one of integers of that shape."""
        for value in self.graph.input:
            if value.name == TABLE:
                value.CopyFrom(helper.make_tensor_value_info(TABLE, TensorProto.INT8, shape))

    def finish(self) -> None:
        """Put the new nodes in the place of the old ones, with all that they need and no more."""
        graph, nodes, wanted = self.graph, [], {value.name for value in self.graph.output}
        for node in reversed(self.made):
            if wanted & set(node.output):
                nodes.append(node)
                wanted |= set(node.input)
        constants = [tensor for name, tensor in self.constants.items() if name in wanted]
        inputs = [value for value in graph.input if value.name in wanted or value.name != TABLE]
        for field, content in (
            (graph.node, nodes[::-1]), (graph.initializer, constants), (graph.input, inputs),
        ):  # fmt: skip
            del field[:]
            field.extend(content)

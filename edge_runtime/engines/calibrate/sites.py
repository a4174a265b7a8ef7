"""Where a graph multiplies with weights: what a scheme can speak of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from onnx import numpy_helper

from edge_runtime.engines.calibrate.scheme import TABLE
from edge_runtime.engines.export.graph import CONSTANT


@dataclass(frozen=True)
class Site:
    """A product with the weight `name`: the tensors it reads and writes.

    A `lookup` takes rows of the embedding table; a `head` multiplies with all of them.
    """

    name: str
    kind: Literal["matmul", "conv", "head", "lookup"]
    activation: str
    output: str
    node: Any

    @property
    def channels_axis(self) -> int:
        """Where the input channels of the activation are."""
        return 1 if self.kind == "conv" else -1


def sites(model: Any) -> Iterator[Site]:
    """The products of a graph with its named weights and with the embedding table, in order."""
    # A constant, as the waves of a spectrogram, is no weight: it is what it is.
    weights = {
        tensor.name
        for tensor in model.graph.initializer
        if len(tensor.dims) > 1 and not tensor.name.startswith(CONSTANT)
    }
    tables = {TABLE} & {value.name for value in model.graph.input}
    for node in model.graph.node:
        if node.op_type == "Transpose" and node.input[0] in tables:
            tables = tables | {node.output[0]}
        elif node.op_type == "Gather" and node.input[0] in tables:
            yield Site(TABLE, "lookup", node.input[1], node.output[0], node)
        elif node.op_type == "MatMul" and node.input[1] in tables:
            yield Site(TABLE, "head", node.input[0], node.output[0], node)
        elif node.op_type == "MatMul" and node.input[1] in weights:
            yield Site(node.input[1], "matmul", node.input[0], node.output[0], node)
        elif node.op_type == "Conv" and node.input[1] in weights:
            yield Site(node.input[1], "conv", node.input[0], node.output[0], node)


def weights(model: Any) -> dict[str, NDArray[Any]]:
    """The weights of a graph's products by name, as the graph holds them."""
    wanted = {site.name for site in sites(model)}
    return {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if tensor.name in wanted
    }


def as_matrix(weight: NDArray[np.float32]) -> NDArray[np.float32]:
    """(in, out) of a product's weight: a convolution's (out, in, kernel) as (kernel·in, out)."""
    if weight.ndim == 2:
        return weight
    return weight.transpose(2, 1, 0).reshape(-1, weight.shape[0])

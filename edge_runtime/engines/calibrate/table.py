"""The embedding table in integers: looked up at one end, multiplied with at the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from edge_runtime.engines.calibrate.activation import Activation
from edge_runtime.engines.calibrate.rewriting import Rewriting
from edge_runtime.engines.calibrate.rounding import Rounded
from edge_runtime.engines.calibrate.scheme import TABLE, Product
from edge_runtime.engines.calibrate.sites import Site

HEADER = 128
"""Bytes before the content of `table.npy`."""


class Table:
    """Writes both ends into a graph.

    The rows of `found` come with a scale each. TensorRT wants one scale for what is no
    constant, and the table is an input: what a row's scale is to the largest is multiplied
    afterwards. For a CPU the table is (d, V), and the head has it as an initializer that lies
    in `table.npy`: onnxruntime packs only those for its kernels.
    """

    def __init__(self, graph: Rewriting, found: Rounded, *, cpu: bool) -> None:
        self._graph = graph
        self._found = found
        self._cpu = cpu

    def head(self, site: Site, activation: Activation) -> None:
        """Logits in float32, however wide the graph is."""
        g, found = self._graph, self._found
        x = activation.read(np.float32)
        if self._cpu:
            values = f"{TABLE}.values"
            g.constants[values] = _in_file(values, found.values.shape)
            scales, zeros = g.constant(f"{TABLE}.scale", found.scales), g.zeros(len(found.scales))
            out = f"{TABLE}.float"
            floats = g.op("DequantizeLinear", values, scales, zeros, out=out, axis=1)
            g.op("MatMul", x, floats, out=site.output)
            return
        g.table_is_int8(*found.values.shape[::-1])
        floats = self._floats(site.node.input[1], np.float32)
        logits = g.op("MatMul", x, floats, out=f"{TABLE}.product")
        g.op("Mul", logits, g.constant(f"{TABLE}.ratio", self._ratios), out=site.output)

    def lookup(self, site: Site, product: Product) -> None:
        """Rows of the table for tokens (B,Q): (B,Q,d)."""
        g, found, tokens = self._graph, self._found, site.activation
        if self._cpu:
            g.table_is_int8(*found.values.shape)
            columns = g.op("Gather", TABLE, tokens, out=f"{TABLE}.columns", axis=1)
            rows = g.op("Transpose", columns, out=f"{TABLE}.rows", perm=[1, 2, 0])
        else:
            g.table_is_int8(*found.values.shape[::-1])
            rows = g.op("Gather", TABLE, tokens, out=f"{TABLE}.rows", axis=0)
        floats = self._floats(rows, g.dtype)
        each = g.constant(f"{TABLE}.ratio", self._ratios[:, None].astype(g.dtype))
        ratios = g.op("Gather", each, tokens, out=f"{TABLE}.ratios", axis=0)
        if not product.smooth:
            g.op("Mul", floats, ratios, out=site.output)
            return
        scaled = g.op("Mul", floats, ratios, out=f"{TABLE}.smooth")
        parts = (1 / np.array(product.smooth, np.float32)).astype(g.dtype)
        g.op("Mul", scaled, g.constant(f"{TABLE}.parts", parts), out=site.output)

    @property
    def _ratios(self) -> NDArray[np.float32]:
        ratios: NDArray[np.float32] = self._found.scales / self._found.scales.max()
        return ratios

    def _floats(self, values: str, dtype: Any) -> str:
        """Integers times the largest scale."""
        g = self._graph
        one = g.constant(f"{TABLE}.largest", self._found.scales.max().astype(dtype))
        return g.op("DequantizeLinear", values, one, g.zeros(), out=f"{TABLE}.float")


def file_content(
    table: NDArray[np.floating[Any]], found: Rounded | None, *, cpu: bool
) -> NDArray[Any]:
    """What `table.npy` holds: the floats, or the integers as the graphs want them.

    In C order: the head reads them as they lie in the file.
    """
    if found is None:
        return table
    return np.ascontiguousarray(found.values if cpu else found.values.T)


def _in_file(name: str, shape: tuple[int, ...]) -> Any:
    """An int8 initializer that is the content of `table.npy` beside the graph."""
    tensor = TensorProto(name=name, data_type=TensorProto.INT8, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    size = int(np.prod(shape))
    for key, value in (("location", f"{TABLE}.npy"), ("offset", HEADER), ("length", size)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor

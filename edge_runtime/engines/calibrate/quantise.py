"""From a float graph and a scheme to a graph whose products are of 8-bit integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from edge_runtime.engines.calibrate.activation import Activation, Zero
from edge_runtime.engines.calibrate.products import Products
from edge_runtime.engines.calibrate.rewriting import Rewriting
from edge_runtime.engines.calibrate.rounding import Rounded, rounded
from edge_runtime.engines.calibrate.scheme import TABLE, Product, Scheme
from edge_runtime.engines.calibrate.sites import Site, as_matrix, sites
from edge_runtime.engines.calibrate.table import Table

Spelling = Literal["signed", "unsigned"]
"""Activations as int8 around 0, for TensorRT; as uint8 around 128, for onnxruntime on a CPU."""

ZEROS: Mapping[Spelling, Zero] = {"signed": np.int8(0), "unsigned": np.uint8(128)}

FLOAT16_OPSET, FLOAT16_IR = 19, 9
"""From which on `QuantizeLinear` takes float16."""


def roundings(weights: Mapping[str, NDArray[np.float32]], scheme: Scheme) -> dict[str, Rounded]:
    """The 8-bit weights that a scheme asks for, of float32 `weights` by name.

    Linear ones come as (in, out), convolutions as (out, in, kernel), the table as (V, d).
    """
    made = {}
    for name, weight in weights.items():
        product = scheme.rounded(name)
        if product is None:
            continue
        matrix = weight.T if name == TABLE else as_matrix(weight)
        smooth = np.array(product.smooth, np.float32) if product.smooth else None
        if smooth is not None and len(smooth) != len(matrix):
            smooth = np.tile(smooth, len(matrix) // len(smooth))
        made[name] = rounded(matrix, smooth)
    return made


def quantised(
    model: Any, scheme: Scheme, spelling: Spelling, weights: Mapping[str, Rounded]
) -> Any:
    """`model` with the products of `scheme` in its precisions; `weights` are its `roundings`.

    Each product of integers reads its activation through a pair of QuantizeLinear and
    DequantizeLinear, its weight through a DequantizeLinear. Both spellings are the same
    arithmetic. Unsigned, a product that is only split afterwards comes apart, a convolution
    of several channels is the product of the windows it looks at, and the embedding table is
    (d, V): that is what onnxruntime has the fastest kernels for.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    dtype = _working(made)
    _Quantising(Rewriting(made, dtype), scheme, spelling, weights).run(list(sites(made)))
    if dtype == np.float16:
        made.opset_import[0].version = FLOAT16_OPSET
        made.ir_version = FLOAT16_IR
    return made


def _working(model: Any) -> np.dtype[Any]:
    """The floating type that products are computed in."""
    graph = model.graph
    kinds = {tensor.name: tensor.data_type for tensor in graph.initializer}
    kinds |= {value.name: value.type.tensor_type.elem_type for value in graph.input}
    found = next((site.name for site in sites(model)), "")
    return np.dtype(helper.tensor_dtype_to_np_dtype(kinds.get(found, onnx.TensorProto.FLOAT)))


class _Quantising:
    """One graph and one scheme: which node becomes what."""

    def __init__(
        self, graph: Rewriting, scheme: Scheme, spelling: Spelling, weights: Mapping[str, Rounded]
    ) -> None:
        self._graph = graph
        self._scheme = scheme
        self._zero = ZEROS[spelling]
        cpu = spelling == "unsigned"
        self._products = Products(graph, weights, cpu=cpu)
        self._table = Table(graph, weights[TABLE], cpu=cpu) if TABLE in weights else None

    def run(self, found: list[Site]) -> None:
        known = {site.output: site for site in found}
        for node in list(self._graph.graph.node):
            site = known.get(node.output[0])
            product = self._scheme.products.get(site.name) if site else None
            if self._products.handled(node):
                continue
            if site is None or product is None:
                self._graph.keep(node)
            elif product.precision == "int8":
                self._integers(site, product)
            elif site.name == TABLE:
                self._graph.keep(node)
            else:
                self._products.floating(site, np.dtype(_NUMPY[product.precision]))
        self._graph.finish()

    def _integers(self, site: Site, product: Product) -> None:
        activation = Activation(self._graph, site, product, self._zero)
        if self._table is not None and site.kind == "head":
            self._table.head(site, activation)
        elif self._table is not None and site.kind == "lookup":
            self._table.lookup(site, product)
        elif site.kind == "conv":
            self._products.conv(site, product, activation)
        else:
            self._products.matmul(site, product, activation)


_NUMPY = {"fp32": np.float32, "fp16": np.float16}

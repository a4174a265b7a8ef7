"""What a product of integers reads: smoothed, rounded, and as numbers again."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from edge_runtime.engines.calibrate.rewriting import Rewriting
from edge_runtime.engines.calibrate.scheme import Product
from edge_runtime.engines.calibrate.sites import Site

Zero = np.int8 | np.uint8


class Activation:
    """The activation of one product in a graph that is rewritten; `zero` is its zero point."""

    def __init__(self, graph: Rewriting, site: Site, product: Product, zero: Zero) -> None:
        self._graph = graph
        self._site = site
        self._product = product
        self._zero = zero

    def read(self, dtype: Any = None) -> str:
        """The tensor to multiply, in `dtype` (the graph's own); not rounded without a scale."""
        if self._product.scale is not None:
            return self.wide(self.rounded(), dtype)
        x, wanted = self.smoothed(), np.dtype(dtype or self._graph.dtype)
        if wanted == self._graph.dtype:
            return x
        kind = helper.np_dtype_to_tensor_dtype(wanted)
        return self._graph.op("Cast", x, out=f"{self._site.name}.wide", to=kind)

    def rounded(self) -> str:
        """The integers."""
        x = self.smoothed()
        scale, zero = self._scale(self._graph.dtype)
        return self._graph.op("QuantizeLinear", x, scale, zero, out=f"{self._site.name}.rounded")

    def wide(self, integers: str, dtype: Any = None) -> str:
        """The numbers that integers mean, however they were moved."""
        scale, zero = self._scale(np.dtype(dtype or self._graph.dtype))
        out = f"{self._site.name}.activation"
        return self._graph.op("DequantizeLinear", integers, scale, zero, out=out)

    def smoothed(self) -> str:
        """The activation over its factors: in the constants of the norm that wrote it, if any."""
        g, site, factors = self._graph, self._site, self._product.smooth
        if not factors:
            return site.activation
        shape = (-1, 1) if site.kind == "conv" else (-1,)
        parts = (1 / np.array(factors, np.float32)).reshape(shape)
        places = constants_behind(g, site.activation, parts.size)
        for number, (node, index) in enumerate(places):
            old = g.value(node.input[index])
            new = (old * parts).astype(old.dtype)
            node.input[index] = g.constant(f"{site.name}.norm_{number}", new)
        if places:
            return site.activation
        constant = g.constant(f"{site.name}.parts", parts.astype(g.dtype))
        return g.op("Mul", site.activation, constant, out=f"{site.name}.smooth")

    def _scale(self, dtype: np.dtype[Any]) -> tuple[str, str]:
        name = f"{self._site.name}.step.{dtype.name}"
        scale = self._graph.constant(name, np.array(self._product.scale, dtype))
        return scale, self._graph.constant("zero", self._zero)


def constants_behind(g: Rewriting, x: str, channels: int) -> list[tuple[Any, int]]:
    """Constants (node, input) that hold the scale, or scale and bias, of `x` by channel.

    None where `x` or what lies between is read by others as well.
    """
    node = g.writers.get(x)
    if node is None or len(g.readers[x]) > 1:
        return []
    constant = next((n for n, name in enumerate(node.input) if _each(g, name, channels)), -1)
    if node.op_type == "Cast":
        return constants_behind(g, node.input[0], channels)
    if node.op_type in ("LayerNormalization", "Div") and constant == int(node.op_type != "Div"):
        return [(node, constant)]
    if node.op_type == "Mul" and constant >= 0:
        return [(node, constant)]
    if node.op_type == "Mul":
        found = (constants_behind(g, name, channels) for name in node.input)
        return next((places for places in found if places), [])
    if node.op_type == "Add" and constant >= 0:
        places = constants_behind(g, node.input[1 - constant], channels)
        return [*places, (node, constant)] if places else []
    return []


def _each(g: Rewriting, name: str, channels: int) -> bool:
    tensor = g.constants.get(name)
    return tensor is not None and int(np.prod(tensor.dims)) == channels > 1

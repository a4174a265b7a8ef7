"""How products are spelt whose weights are integers, or floats of another width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from edge_runtime.engines.calibrate.activation import Activation
from edge_runtime.engines.calibrate.rewriting import Rewriting
from edge_runtime.engines.calibrate.rounding import Rounded
from edge_runtime.engines.calibrate.scheme import Product
from edge_runtime.engines.calibrate.sites import Site, as_matrix

_END = np.iinfo(np.int64).max


class Products:
    """Writes matrix products and convolutions into a graph; `cpu` as onnxruntime likes them."""

    def __init__(self, graph: Rewriting, weights: Mapping[str, Rounded], *, cpu: bool) -> None:
        self._graph = graph
        self._weights = weights
        self._cpu = cpu
        self._joined: set[str] = set()

    def handled(self, node: Any) -> bool:
        """Whether a node of the old graph has no work left: what it would split came apart."""
        return node.name in self._joined

    def matmul(self, site: Site, product: Product, activation: Activation) -> None:
        """Of integers in float32, however wide the graph is.

        Sums of products of integers go far beyond float16, and TensorRT-RTX 1.7 hands them on in
        the product's own type before it scales them (seen on an H200: infinities).
        """
        g, found = self._graph, self._weights[site.name]
        dtype = g.dtype if product.scale is None else np.dtype(np.float32)
        x = activation.read(dtype)
        g.constants.pop(site.name)
        for output, columns in self._parts(site, found.values.shape[1]).items():
            name = site.name if output == site.output else f"{site.name}.{output}"
            part = Rounded(found.values[:, columns], found.scales[columns])
            if dtype == g.dtype:
                g.op("MatMul", x, self._matrix(name, part, dtype), out=output)
                continue
            wide = g.op("MatMul", x, self._matrix(name, part, dtype), out=f"{name}.product")
            g.op("Cast", wide, out=output, to=helper.np_dtype_to_tensor_dtype(g.dtype))

    def conv(self, site: Site, product: Product, activation: Activation) -> None:
        g, found = self._graph, self._weights[site.name]
        if self._windowed(site) and product.scale is not None:
            x = activation.wide(self._windows(site, activation.rounded()))
            self._window_product(site, x, self._matrix(site.name, found, g.dtype))
            return
        out, channels, kernel = g.constants[site.name].dims
        g.set(site.name, found.values.reshape(kernel, channels, out).transpose(2, 1, 0))
        weight = self._dequantised(site.name, found, g.dtype, axis=0)
        inputs = [activation.read(), weight, *site.node.input[2:]]
        conv = helper.make_node("Conv", inputs, [site.output], site.node.name)
        conv.attribute.extend(site.node.attribute)
        g.keep(conv)

    def floating(self, site: Site, dtype: np.dtype[Any]) -> None:
        """A product of floats.

        float16 in a float32 graph is how the weights are kept; float32 in a float16 graph is
        how the product is computed.
        """
        g, node, name = self._graph, site.node, site.name
        if dtype == np.float32 != g.dtype:
            self._widened(node, name, site.output)
            return
        weight, windows = g.value(name), ""
        if self._windowed(site):
            windows = self._windows(site, site.activation)
            weight = as_matrix(weight)
        g.set(name, weight.astype(dtype))
        if dtype != g.dtype:
            name = g.op("Cast", name, out=f"{name}.float", to=TensorProto.FLOAT)
        if windows:
            self._window_product(site, windows, name)
            return
        node.input[1] = name
        g.keep(node)

    def _widened(self, node: Any, name: str, output: str) -> None:
        g = self._graph
        for index, read in enumerate(node.input):
            out = f"{name}.float_{index}"
            node.input[index] = g.op("Cast", read, out=out, to=TensorProto.FLOAT)
        node.output[0] = f"{name}.wide"
        g.keep(node)
        g.op("Cast", node.output[0], out=output, to=TensorProto.FLOAT16)

    # -- matrices

    def _matrix(self, name: str, found: Rounded, dtype: np.dtype[Any]) -> str:
        """A weight (in, out) as numbers."""
        self._graph.set(name, found.values)
        return self._dequantised(name, found, dtype, axis=1)

    def _dequantised(self, name: str, found: Rounded, dtype: np.dtype[Any], axis: int) -> str:
        g = self._graph
        scales = g.constant(f"{name}.scale", found.scales.astype(dtype))
        zeros = g.zeros(len(found.scales))
        return g.op("DequantizeLinear", name, scales, zeros, out=f"{name}.float", axis=axis)

    def _parts(self, site: Site, width: int) -> dict[str, slice]:
        """The columns of each output: a CPU need not join what is only split afterwards."""
        readers = self._graph.readers.get(site.output, [])
        if self._cpu and [node.op_type for node in readers] == ["Split"]:
            sizes = self._graph.value(readers[0].input[1])
            ends = np.cumsum(sizes)
            if ends[-1] == width:
                self._joined.add(readers[0].name)
                columns = map(slice, (ends - sizes).tolist(), ends.tolist())
                return dict(zip(readers[0].output, columns, strict=True))
        return {site.output: slice(0, width)}

    # -- convolutions

    def _windowed(self, site: Site) -> bool:
        """Whether it is spelt as a product: not that of a single channel, it has many windows."""
        return self._cpu and site.kind == "conv" and self._graph.constants[site.name].dims[1] > 1

    def _windows(self, site: Site, x: str) -> str:
        """What an unpadded convolution of (B,C,T) looks at each time, (B,n,kernel·C)."""
        g, name = self._graph, site.name
        (stride,) = next(each.ints for each in site.node.attribute if each.name == "strides")
        kernel = g.constants[name].dims[2]
        rows = g.op("Transpose", x, out=f"{name}.rows", perm=[0, 2, 1])
        axis, by = g.ints("axis_1", 1), g.ints(f"by_{stride}", stride)
        taps = []
        for tap in range(kernel):
            last = tap - kernel + 1
            start = g.ints(f"at_{tap}", tap)
            end = g.ints(f"at_{last}", last) if last else g.ints("end", _END)
            taps.append(g.op("Slice", rows, start, end, axis, by, out=f"{name}.tap_{tap}"))
        return g.op("Concat", *taps, out=f"{name}.window", axis=2)

    def _window_product(self, site: Site, x: str, matrix: str) -> None:
        g, name, bias = self._graph, site.name, site.node.input[2:]
        found = g.op("MatMul", x, matrix, out=f"{name}.product")
        if bias:
            found = g.op("Add", found, *bias, out=f"{name}.biased")
        g.op("Transpose", found, out=site.output, perm=[0, 2, 1])

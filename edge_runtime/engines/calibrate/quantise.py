"""From a float graph and a scheme to a graph whose products are of 8-bit integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.engines.calibrate.rounding import Rounded, rounded
from edge_runtime.engines.calibrate.scheme import TABLE, Product, Scheme
from edge_runtime.engines.calibrate.sites import Site, as_matrix, sites

Spelling = Literal["signed", "unsigned"]
"""Activations as int8 around 0, for TensorRT; as uint8 around 128, for onnxruntime on a CPU."""

ZEROS = {"signed": np.int8(0), "unsigned": np.uint8(128)}

FLOAT16_OPSET, FLOAT16_IR = 19, 9
"""From which on `QuantizeLinear` takes float16."""

_END = np.iinfo(np.int64).max


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
    DequantizeLinear, its weight through a DequantizeLinear. Signed, the table is an int8
    input (V, d) of both ends. Unsigned it is (d, V), and the head has it as an initializer that
    lies in `table.npy` (onnxruntime packs only those for its kernels); and a convolution is
    spelt as a product of the windows it looks at: the same integers, without another rounding.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    _Graph(made, scheme, spelling, weights).rewrite()
    return made


class _Graph:
    """A graph while it is rewritten, node after node."""

    def __init__(
        self, model: Any, scheme: Scheme, spelling: Spelling, weights: Mapping[str, Rounded]
    ) -> None:
        self.model = model
        self.graph = model.graph
        self.scheme = scheme
        self.spelling = spelling
        self.weights = weights
        self.made: list[Any] = []
        self.constants = {tensor.name: tensor for tensor in self.graph.initializer}
        self.writers = {name: node for node in self.graph.node for name in node.output}
        readers = [name for node in self.graph.node for name in node.input]
        self.shared = {name for name in readers if readers.count(name) > 1}
        self.dtype = self._working()

    def _working(self) -> np.dtype[Any]:
        """The floating type that products are computed in, as the graph came."""
        for site in sites(self.model):
            kinds = [value for value in self.graph.input if value.name == TABLE]
            if site.kind in ("head", "lookup"):
                kind = kinds[0].type.tensor_type.elem_type
            else:
                kind = self.constants[site.name].data_type
            return np.dtype(helper.tensor_dtype_to_np_dtype(kind))
        return np.dtype(np.float32)

    def rewrite(self) -> None:
        found = {site.output: site for site in sites(self.model)}
        for node in self.graph.node:
            self._node(node, found.get(node.output[0]))
        self._finish()

    def _node(self, node: Any, site: Site | None) -> None:
        product = self.scheme.products.get(site.name) if site else None
        if site is None or product is None:
            self.made.append(node)
        elif product.precision == "int8":
            getattr(self, f"_{site.kind}")(site, product)
        else:
            self._floating(site, np.dtype(product.precision.replace("fp", "float")))

    def _finish(self) -> None:
        graph = self.graph
        del graph.node[:]
        graph.node.extend(_used(self.made, {value.name for value in graph.output}))
        read = {name for node in graph.node for name in node.input}
        kept = [tensor for name, tensor in self.constants.items() if name in read]
        del graph.initializer[:]
        graph.initializer.extend(kept)
        inputs = [value for value in graph.input if value.name in read or value.name != TABLE]
        del graph.input[:]
        graph.input.extend(inputs)
        if self.dtype == np.float16:
            self.model.opset_import[0].version = FLOAT16_OPSET
            self.model.ir_version = FLOAT16_IR

    # -- writing

    def _op(self, kind: str, *inputs: str, out: str, **attributes: Any) -> str:
        self.made.append(helper.make_node(kind, inputs, [out], out, **attributes))
        return out

    def _constant(self, name: str, array: Any) -> str:
        if name not in self.constants:
            self.constants[name] = numpy_helper.from_array(np.asarray(array), name)
        return name

    # -- products of integers

    def _matmul(self, site: Site, product: Product) -> None:
        x = self._activation(site, product)
        self._op("MatMul", x, self._matrix(site.name), out=site.output)

    def _conv(self, site: Site, product: Product) -> None:
        if self.spelling == "unsigned" and product.scale is not None:
            self._windows(site, product)
            return
        found, shape = self.weights[site.name], self.constants[site.name].dims
        out, channels, kernel = shape
        values = found.values.reshape(kernel, channels, out).transpose(2, 1, 0)
        self.constants[site.name] = numpy_helper.from_array(np.ascontiguousarray(values), site.name)
        scales = self._constant(f"{site.name}.scale", found.scales.astype(self.dtype))
        zeros = self._zeros(out)
        weight = self._op(
            "DequantizeLinear", site.name, scales, zeros, out=f"{site.name}.float", axis=0
        )
        x = self._activation(site, product)
        conv = helper.make_node(
            "Conv", [x, weight, *site.node.input[2:]], [site.output], site.node.name
        )
        conv.attribute.extend(site.node.attribute)
        self.made.append(conv)

    def _windows(self, site: Site, product: Product) -> None:
        """An unpadded convolution of (B,C,T) as the product of its windows (B,n,kernel·C)."""
        name, node = site.name, site.node
        (stride,) = next(each.ints for each in node.attribute if each.name == "strides")
        kernel = self.constants[name].dims[2]
        rows = self._op(
            "Transpose", self._rounded(site, product), out=f"{name}.rows", perm=[0, 2, 1]
        )
        axis, by = self._ints("axis_1", 1), self._ints(f"by_{stride}", stride)
        taps = []
        for tap in range(kernel):
            last = tap - kernel + 1
            start = self._ints(f"at_{tap}", tap)
            end = self._ints(f"at_{last}", last) if last else self._ints("end", _END)
            taps.append(self._op("Slice", rows, start, end, axis, by, out=f"{name}.tap_{tap}"))
        window = self._op("Concat", *taps, out=f"{name}.window", axis=2)
        x = self._wide(site, product, window)
        self.constants.pop(name)
        product_out = self._op("MatMul", x, self._matrix(name), out=f"{name}.product")
        if len(node.input) > 2:
            product_out = self._op("Add", product_out, node.input[2], out=f"{name}.biased")
        self._op("Transpose", product_out, out=site.output, perm=[0, 2, 1])

    def _head(self, site: Site, product: Product) -> None:
        """The product with all rows of the table; its scales are one for each column."""
        found = self.weights[TABLE]
        x = self._activation(site, product, np.dtype(np.float32))
        if self.spelling == "unsigned":
            values = f"{TABLE}.values"
            self.constants[values] = in_table_file(values, found.values.shape)
            scales = self._constant(f"{TABLE}.scale", found.scales)
            zeros = self._zeros(len(found.scales))
            floats = self._op(
                "DequantizeLinear", values, scales, zeros, out=f"{TABLE}.float", axis=1
            )
            self._op("MatMul", x, floats, out=site.output)
            return
        # TensorRT takes a scale for each channel of constants only, and the table is an input.
        self._table_is_int8(found.values.shape[::-1])
        one, ratios = self._one_scale(found)
        columns = site.node.input[1]
        floats = self._op("DequantizeLinear", columns, one, self._zeros(), out=f"{TABLE}.float")
        logits = self._op("MatMul", x, floats, out=f"{TABLE}.product")
        each = self._constant(f"{TABLE}.ratio", ratios)
        self._op("Mul", logits, each, out=site.output)

    def _lookup(self, site: Site, product: Product) -> None:
        """Rows of the table, each times its scale."""
        found = self.weights[TABLE]
        one, ratios = self._one_scale(found, self.dtype)
        if self.spelling == "unsigned":
            self._table_is_int8(found.values.shape)
            columns = self._op("Gather", TABLE, site.activation, out=f"{TABLE}.columns", axis=1)
            rows = self._op("Transpose", columns, out=f"{TABLE}.rows", perm=[1, 2, 0])
        else:
            self._table_is_int8(found.values.shape[::-1])
            rows = self._op("Gather", TABLE, site.activation, out=f"{TABLE}.rows", axis=0)
        floats = self._op("DequantizeLinear", rows, one, self._zeros(), out=f"{TABLE}.float")
        each = self._constant(f"{TABLE}.ratio", ratios[:, None].astype(self.dtype))
        ratio = self._op("Gather", each, site.activation, out=f"{TABLE}.ratios", axis=0)
        if not product.smooth:
            self._op("Mul", floats, ratio, out=site.output)
            return
        scaled = self._op("Mul", floats, ratio, out=f"{TABLE}.smooth")
        back = 1 / np.array(product.smooth, np.float32)
        self._op(
            "Mul", scaled, self._constant(f"{TABLE}.back", back.astype(self.dtype)), out=site.output
        )

    def _one_scale(
        self, found: Rounded, dtype: Any = np.float32
    ) -> tuple[str, NDArray[np.float32]]:
        largest = found.scales.max()
        name = self._constant(f"{TABLE}.one", largest.astype(dtype))
        return name, found.scales / largest

    def _table_is_int8(self, shape: tuple[int, ...]) -> None:
        for value in self.graph.input:
            if value.name == TABLE:
                value.CopyFrom(helper.make_tensor_value_info(TABLE, TensorProto.INT8, shape))

    # -- the two sides of a product

    def _matrix(self, name: str) -> str:
        """The weight (in, out) through its DequantizeLinear."""
        found = self.weights[name]
        self.constants[name] = numpy_helper.from_array(found.values, name)
        scales = self._constant(f"{name}.scale", found.scales.astype(self.dtype))
        zeros = self._zeros(len(found.scales))
        return self._op("DequantizeLinear", name, scales, zeros, out=f"{name}.float", axis=1)

    def _zeros(self, *shape: int) -> str:
        # Never left out: onnxruntime then takes what it moves a pair across for uint8.
        name = "_".join(map(str, ("zeros", *shape)))
        return self._constant(name, np.zeros(shape, np.int8))

    def _activation(self, site: Site, product: Product, dtype: Any = None) -> str:
        """What the product reads, rounded and back, in `dtype` (the graph's own)."""
        if product.scale is None:
            return self._smooth(site, product)
        return self._wide(site, product, self._rounded(site, product), dtype)

    def _rounded(self, site: Site, product: Product) -> str:
        x = self._smooth(site, product)
        scale, zero = self._scale(site, product, self.dtype)
        return self._op("QuantizeLinear", x, scale, zero, out=f"{site.name}.rounded")

    def _wide(self, site: Site, product: Product, x: str, dtype: Any = None) -> str:
        scale, zero = self._scale(site, product, dtype or self.dtype)
        return self._op("DequantizeLinear", x, scale, zero, out=f"{site.name}.activation")

    def _scale(self, site: Site, product: Product, dtype: np.dtype[Any]) -> tuple[str, str]:
        name = f"{site.name}.step.{dtype.name}"
        scale = self._constant(name, np.array(product.scale, dtype))
        return scale, self._constant("zero", ZEROS[self.spelling])

    def _smooth(self, site: Site, product: Product) -> str:
        """The activation over its factors: in the constants of the norm that wrote it, if any."""
        x = site.activation
        if not product.smooth:
            return x
        shape = (-1, 1) if site.kind == "conv" else (-1,)
        parts = (1 / np.array(product.smooth, np.float32)).reshape(shape)
        places = self._constants_behind(x, parts.size)
        for number, (node, index) in enumerate(places):
            old = numpy_helper.to_array(self.constants[node.input[index]])
            new = (old * parts).astype(old.dtype)
            node.input[index] = self._constant(f"{site.name}.norm_{number}", new)
        if places:
            return x
        factors = self._constant(f"{site.name}.parts", parts.astype(self.dtype))
        return self._op("Mul", x, factors, out=f"{site.name}.smooth")

    def _constants_behind(self, x: str, channels: int) -> list[tuple[Any, int]]:
        """Constants (node, input) that hold the scale, or scale and bias, of `x` by channel.

        None where what lies between is read by others as well.
        """
        node = self.writers.get(x)
        if node is None or x in self.shared:
            return []
        constant = next((n for n, name in enumerate(node.input) if self._each(name, channels)), -1)
        if node.op_type == "Cast":
            return self._constants_behind(node.input[0], channels)
        if node.op_type in ("LayerNormalization", "Div") and constant == int(node.op_type != "Div"):
            return [(node, constant)]
        if node.op_type == "Mul":
            found = (self._constants_behind(name, channels) for name in node.input)
            return next((places for places in found if places), [])
        if node.op_type == "Add" and constant >= 0:
            places = self._constants_behind(node.input[1 - constant], channels)
            return [*places, (node, constant)] if places else []
        return []

    def _each(self, name: str, channels: int) -> bool:
        tensor = self.constants.get(name)
        return tensor is not None and int(np.prod(tensor.dims)) == channels > 1

    # -- products of floats

    def _floating(self, site: Site, dtype: np.dtype[Any]) -> None:
        """A product in another floating type than the graph's.

        float16 in a float32 graph is how the weights are kept; float32 in a float16 graph is
        how the product is computed.
        """
        if site.kind in ("head", "lookup") or dtype == self.dtype:
            self.made.append(site.node)
            return
        node = site.node
        tensor = numpy_helper.to_array(self.constants[site.name])
        if dtype == np.float16:
            self.constants[site.name] = numpy_helper.from_array(tensor.astype(dtype), site.name)
            node.input[1] = self._op(
                "Cast", site.name, out=f"{site.name}.float", to=TensorProto.FLOAT
            )
            self.made.append(node)
            return
        for index, name in enumerate(node.input):
            node.input[index] = self._op(
                "Cast", name, out=f"{site.name}.float_{index}", to=TensorProto.FLOAT
            )
        node.output[0] = f"{site.name}.wide"
        self.made.append(node)
        self._op("Cast", node.output[0], out=site.output, to=TensorProto.FLOAT16)

    def _ints(self, name: str, *values: int) -> str:
        return self._constant(name, np.array(values, np.int64))


def table_of(table: NDArray[Any], found: Rounded | None, spelling: Spelling) -> NDArray[Any]:
    """What `table.npy` holds: the floats, or (V, d) or (d, V) of integers, as the graphs want."""
    if found is None:
        return table
    # In C order: the head reads the file as it lies there.
    return np.ascontiguousarray(found.values if spelling == "unsigned" else found.values.T)


def in_table_file(name: str, shape: tuple[int, ...]) -> Any:
    """An int8 initializer that is the content of `table.npy` beside the graph."""
    tensor = TensorProto(name=name, data_type=TensorProto.INT8, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    size = int(np.prod(shape))
    for key, value in (("location", f"{TABLE}.npy"), ("offset", _header()), ("length", size)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _header() -> int:
    """Bytes before the content of a .npy file of so small a shape."""
    return 128


def _used(nodes: list[Any], outputs: set[str]) -> list[Any]:
    """The nodes that outputs depend on, in order."""
    kept = []
    for node in reversed(nodes):
        if outputs & set(node.output):
            kept.append(node)
            outputs = outputs | set(node.input)
    return kept[::-1]

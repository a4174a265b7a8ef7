"""A small writer of ONNX graphs: operators become method calls, arrays become constants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8

CONSTANT = "constant_"
"""What names of constants begin with."""

TYPES = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float16): TensorProto.FLOAT16,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.bool_): TensorProto.BOOL,
}


class GraphWriter:
    """Collects nodes in order; every value is known by its name, a `str`.

    `dtype` is the floating type of weights and activations. What must stay in
    float32 (norms, probabilities) goes through `wide` and `narrow`. `fused` graphs
    are for onnxruntime alone: they may use operators of its own.
    """

    def __init__(self, name: str, dtype: Any = np.float32, *, fused: bool = False) -> None:
        self.name = name
        self.dtype = np.dtype(dtype)
        self.fused = fused
        self._nodes: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._initializers: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    # -- values

    def input(self, name: str, dtype: Any, shape: Sequence[int | str]) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, TYPES[np.dtype(dtype)], shape))
        return name

    def output(self, value: str, name: str, dtype: Any, shape: Sequence[int | str]) -> str:
        """Make `value` an output of that name; go on with the new name.

        No copy is added, but for an input that is handed on as it is.
        """
        if not any(value in node.output for node in self._nodes):
            value = self.op("Identity", value)
        for node in self._nodes:
            for names in (node.input, node.output):
                for index, each in enumerate(names):
                    if each == value:
                        names[index] = name
        self._outputs.append(helper.make_tensor_value_info(name, TYPES[np.dtype(dtype)], shape))
        return name

    def constant(self, array: Any, dtype: Any = None) -> str:
        """A constant; equal ones are stored once."""
        data = np.ascontiguousarray(array, dtype)
        key = (data.dtype.str, np.shape(array), data.tobytes())
        if key not in self._constants:
            name = f"{CONSTANT}{len(self._constants)}"
            self._constants[key] = name
            self._initializers.append(numpy_helper.from_array(data.reshape(np.shape(array)), name))
        return self._constants[key]

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def scalar(self, value: float, dtype: Any = None) -> str:
        return self.constant(np.array(value), dtype or self.dtype)

    def weight(self, array: NDArray[Any], name: str) -> str:
        """A named weight in the graph's floating type."""
        self._initializers.append(numpy_helper.from_array(array.astype(self.dtype), name))
        return name

    # -- operators

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.split_op(kind, 1, *inputs, **attributes)[0]

    def split_op(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        index = len(self._nodes)
        outputs = [
            f"{kind.lower()}_{index}_{i}" if count > 1 else f"{kind.lower()}_{index}"
            for i in range(count)
        ]
        self._nodes.append(helper.make_node(kind, inputs, outputs, f"{kind}_{index}", **attributes))
        return outputs

    def add(self, a: str, b: str) -> str:
        return self.op("Add", a, b)

    def mul(self, a: str, b: str) -> str:
        return self.op("Mul", a, b)

    def matmul(self, a: str, b: str) -> str:
        return self.op("MatMul", a, b)

    def transpose(self, x: str, *perm: int) -> str:
        return self.op("Transpose", x, perm=perm)

    def reshape(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.ints(*shape))

    def unsqueeze(self, x: str, *axes: int) -> str:
        return self.op("Unsqueeze", x, self.ints(*axes))

    def split(self, x: str, sizes: Sequence[int], axis: int) -> list[str]:
        return self.split_op("Split", len(sizes), x, self.ints(*sizes), axis=axis)

    def cast(self, x: str, dtype: Any) -> str:
        return self.op("Cast", x, to=TYPES[np.dtype(dtype)])

    def wide(self, x: str) -> str:
        """`x` in float32."""
        return x if self.dtype == np.float32 else self.cast(x, np.float32)

    def narrow(self, x: str) -> str:
        """A float32 value in the graph's floating type."""
        return x if self.dtype == np.float32 else self.cast(x, self.dtype)

    def size(self, x: str, axis: int) -> str:
        """The length of an axis, shape (1,) int64."""
        return self.op("Shape", x, start=axis, end=axis + 1)

    def arange(self, size: str) -> str:
        """0 … size-1, int64; `size` has shape (1,)."""
        stop = self.op("Squeeze", size, self.ints(0))
        return self.op(
            "Range",
            self.constant(np.array(0, np.int64)),
            stop,
            self.constant(np.array(1, np.int64)),
        )

    # -- result

    def model(self) -> Any:
        graph = helper.make_graph(
            self._nodes, self.name, self._inputs, self._outputs, self._initializers
        )
        used = {"": OPSET} | {node.domain: 1 for node in self._nodes if node.domain}
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*each) for each in used.items()],
            producer_name="edge-runtime",
        )
        model.ir_version = IR_VERSION
        return model

    def save(self, path: Path) -> None:
        onnx.save(self.model(), str(path))

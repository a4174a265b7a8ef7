"""Moonshine's weights out of the published onnxruntime flatbuffers (`.ort`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.engines.weights.base import Weights, damaged
from edge_runtime.errors import ModelDamaged, ModelMissing

_IDENTIFIER = b"ORTM"
_FLOAT, _UINT8 = 1, 2
# The merged decoder's branches share initialisers, renamed when they were merged.
_MERGED = re.compile(r"_merged_\d+$")
_PARAMETER = re.compile(
    r"(?:model\.decoder\.)?"
    r"(?:conv\d\.(?:weight|bias)|(?:layer_)?norm\.weight|layers\.\d+\.[a-z0-9_.]+\.(?:weight|bias))"
)
# Where an op keeps its matrix, that matrix' scale and its zero point.
_QUANTISED = {"DynamicQuantizeMatMul": (1, 2, 3), "MatMulIntegerToFloat": (1, 3, 5)}


def read(encoder: Path, decoder: Path) -> Weights:
    """All weights of the two published graphs, dequantised, under Hugging Face's names.

    A linear layer's matrix is [out, in]; a convolution's [out, in, kernel].
    `proj_out.weight` is the head's own copy of the tied table; the published
    file has the same numbers in both.
    Raises `ModelMissing` for a file that is not there, `ModelDamaged` naming the
    tensor for one that does not read.
    """
    return _take(encoder, _encoder) | _take(decoder, _decoder)


def _take(path: Path, pick: Callable[[_Graph], Weights]) -> Weights:
    from onnxruntime.tools.ort_format_model.ort_flatbuffers_py.fbs import InferenceSession

    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ModelMissing(f"{path} does not exist", "Run: edge-runtime pull MODEL") from None
    if data[4:8] != _IDENTIFIER:
        raise damaged(path, "is not an onnxruntime flatbuffer")
    try:
        session = InferenceSession.InferenceSession.GetRootAs(data, 0)
        return pick(_Graph(session.Model().Graph(), path))
    except ModelDamaged:
        raise
    except Exception as error:  # the reader trusts its offsets: anything can come out
        raise damaged(path, f"cannot be read: {error}") from error


class _Node:
    """One operation: its type, and the names it reads and writes."""

    def __init__(self, raw: Any) -> None:
        self.op: str = raw.OpType().decode()
        self.inputs = [raw.Inputs(i).decode() for i in range(raw.InputsLength())]
        self.outputs = [raw.Outputs(i).decode() for i in range(raw.OutputsLength())]
        self.attributes = [raw.Attributes(i) for i in range(raw.AttributesLength())]


class _Graph:
    """A graph of the flatbuffer: nodes, and initialisers by name."""

    def __init__(self, raw: Any, path: Path) -> None:
        self.path = path
        self.nodes = [_Node(raw.Nodes(i)) for i in range(raw.NodesLength())]
        tensors = (raw.Initializers(i) for i in range(raw.InitializersLength()))
        self._tensors = {tensor.Name().decode(): tensor for tensor in tensors}

    def branch(self, name: str) -> _Graph:
        """The subgraph that is the attribute `name` of the graph's one `If`."""
        for node in self.nodes:
            for attribute in node.attributes:
                if node.op == "If" and attribute.Name().decode() == name:
                    return _Graph(attribute.G(), self.path)
        raise damaged(self.path, f"has no {name}")

    def parameters(self) -> Iterator[tuple[str, str]]:
        """(name of the parameter, name of its initialiser) of those that kept their name."""
        for name in self._tensors:
            plain = _MERGED.sub("", name)
            if _PARAMETER.fullmatch(plain):
                yield plain, name

    def floats(self, name: str) -> NDArray[np.float32]:
        """A copy of the initialiser `name`, which must be float32."""
        return self._array(name, _FLOAT, np.dtype("<f4")).astype(np.float32)

    def dequantised(self, matrix: str, scale: str, zero_point: str) -> NDArray[np.float32]:
        """(matrix - zero_point) * scale, both of them one number for the whole tensor."""
        step = self.floats(scale)
        zero = self._array(zero_point, _UINT8, np.dtype(np.uint8))
        if step.size != 1 or zero.size != 1:
            raise damaged(self.path, f"{matrix}: quantised by {step.size} scales, not by one")
        values = self._array(matrix, _UINT8, np.dtype(np.uint8))
        return (values.astype(np.float32) - np.float32(zero.item())) * np.float32(step.item())

    def _array(self, name: str, kind: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        tensor = self._tensors.get(name)
        if tensor is None:
            raise damaged(self.path, f"has no tensor {name}")
        shape = tuple(tensor.Dims(i) for i in range(tensor.DimsLength()))
        count = int(np.prod(shape, dtype=np.int64))
        if tensor.DataType() != kind or tensor.RawDataLength() != count * dtype.itemsize:
            raise damaged(
                self.path,
                f"{name}: type {tensor.DataType()} in {tensor.RawDataLength()} bytes "
                f"is not {dtype} of {shape}",
            )
        return np.frombuffer(tensor.RawDataAsNumpy(), dtype).reshape(shape)


def _encoder(graph: _Graph) -> Weights:
    weights = {"model.encoder." + name: graph.floats(raw) for name, raw in graph.parameters()}
    for name, matrix in _linears(graph):
        weights[f"model.encoder.{name}.weight"] = matrix
    scale, shift = _group_norm(graph)
    weights["model.encoder.groupnorm.weight"] = graph.floats(scale).reshape(-1)
    weights["model.encoder.groupnorm.bias"] = graph.floats(shift).reshape(-1)
    return weights


def _decoder(graph: _Graph) -> Weights:
    # The branch without a cache is the one that also projects the memory's keys and values.
    graph = graph.branch("else_branch")
    weights = {name: graph.floats(raw) for name, raw in graph.parameters()}
    for name, matrix in _linears(graph):
        weights[f"{name}.weight"] = matrix
    lookup = next((node for node in graph.nodes if node.op == "Gather"), None)
    table = lookup.inputs[0] if lookup else ""
    if not re.fullmatch(r"model\.decoder\.embed_tokens\.weight(_merged_\d+)?_quantized", table):
        raise damaged(graph.path, "has no embedding table")
    stem = table.removesuffix("_quantized")
    weights["model.decoder.embed_tokens.weight"] = graph.dequantised(
        table, f"{stem}_scale", f"{stem}_zero_point"
    )
    return weights


def _linears(graph: _Graph) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """(module, [out, in]): the matrices are anonymous, what the node writes names the module."""
    for node in graph.nodes:
        if node.op not in _QUANTISED:
            continue
        written = node.outputs[0]
        module = "proj_out"
        if written != "logits":
            module = written.lstrip("/").rpartition("/")[0].replace("/", ".")
        matrix, scale, zero_point = (node.inputs[i] for i in _QUANTISED[node.op])
        yield module, np.ascontiguousarray(graph.dequantised(matrix, scale, zero_point).T)


def _group_norm(graph: _Graph) -> tuple[str, str]:
    """Names of GroupNorm's weight and bias: InstanceNormalization, Reshape, Mul, Add in a row."""

    def reader(op: str, value: str) -> _Node:
        for node in graph.nodes:
            if node.op == op and value in node.inputs:
                return node
        raise damaged(graph.path, f"has no {op} of the group norm")

    norm = next((node for node in graph.nodes if node.op == "InstanceNormalization"), None)
    if norm is None:
        raise damaged(graph.path, "has no group norm")
    value = reader("Reshape", norm.outputs[0]).outputs[0]
    names = []
    for op in ("Mul", "Add"):
        node = reader(op, value)
        names.append(next(name for name in node.inputs if name != value))
        value = node.outputs[0]
    return names[0], names[1]

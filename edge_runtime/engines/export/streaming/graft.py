"""Graphs of our own around published ones: nodes renamed, wired together, weights left in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import version_converter

from edge_runtime.engines.export.graph import IR_VERSION, OPSET


def renamed(graph: Any, prefix: str, kept: Mapping[str, str]) -> tuple[list[Any], list[Any]]:
    """Copies of a graph's nodes and weights, every name behind `prefix` but those in `kept`.

    Those get the names that they have there. A graph that is put in several times shares its
    weights where their names are kept. Graphs within nodes follow.
    """

    def name(old: str) -> str:
        return kept.get(old, prefix + old) if old else ""

    nodes = []
    for node in graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        _rename(copy, name)
        copy.name = prefix + node.name
        nodes.append(copy)
    weights = []
    for tensor in graph.initializer:
        weight = onnx.TensorProto()
        weight.CopyFrom(tensor)
        weight.name = name(tensor.name)
        weights.append(weight)
    return nodes, weights


def _rename(node: Any, name: Any) -> None:
    node.input[:] = [name(each) for each in node.input]
    node.output[:] = [name(each) for each in node.output]
    for attribute in node.attribute:
        for graph in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
            for value in [*graph.input, *graph.output, *graph.initializer, *graph.value_info]:
                value.name = name(value.name)
            for inner in graph.node:
                _rename(inner, name)


def current(model: Any) -> Any:
    """The model in the opset of our own graphs, where it is older."""
    versions = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
    if versions and versions[0] < OPSET:
        return version_converter.convert_version(model, OPSET)
    return model


def model(graph: Any, parts: Sequence[Any], notes: Mapping[str, str] | None = None) -> Any:
    """A model of a graph that holds nodes of `parts`, of the latest opset that one of them has."""
    versions: dict[str, int] = {}
    for part in parts:
        for each in part.opset_import:
            domain = "" if each.domain == "ai.onnx" else each.domain
            versions[domain] = max(each.version, versions.get(domain, 0))
    opsets = [onnx.helper.make_opsetid(*each) for each in versions.items()]
    made = onnx.helper.make_model(graph, opset_imports=opsets, producer_name="edge-runtime")
    made.ir_version = max(IR_VERSION, *(part.ir_version for part in parts))
    onnx.helper.set_model_props(made, dict(notes or {}))
    return made

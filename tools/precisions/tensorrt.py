"""What TensorRT-RTX takes and no CPU runs: FP8 products, and INT4 weights; built, never run here.

The scales are stand-ins: whether a graph parses and builds does not depend on them, and what a
device would write with them is not judged.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.device.tensorrt.logger import make_logger
from edge_runtime.device.tensorrt.module import TensorRT, find_tensorrt
from edge_runtime.engines.build.contract import signatures
from edge_runtime.engines.build.profiles import ranges
from edge_runtime.engines.build.tile import parse
from edge_runtime.engines.calibrate.sites import sites
from edge_runtime.engines.recipe import MoonshineRecipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import DeviceError

SAMPLES = 272_000
CAPABILITIES = {"fp8": "SM89", "int4": "SM80", "fp16": "SM80"}
"""The oldest GPUs whose products are of that kind; an Orin is 8.7."""

BLOCK = 32
"""Input channels of a scale: the widths of the model hold no larger power of two."""

_STEP = np.float16(0.01)
_OPSET, _IR = 21, 10

Said = Callable[[str], None]
Rewrite = Callable[[Any], None]


def built(store: Store, recipe: MoonshineRecipe, said: Said) -> list[dict[str, Any]]:
    """One row for each precision and tile: bytes of its plan, or why there is none."""
    tensorrt = find_tensorrt("tensorrt_rtx")
    graphs = store.graphs(recipe, "fp16")
    ways: Mapping[str, tuple[str, Rewrite]] = {
        "fp16": ("fp16", lambda model: None),
        "fp8": ("fp8", _fp8),
        "int4": ("int4", _int4),
    }
    rows = []
    for name, (kind, rewrite) in ways.items():
        for path in _tiles(graphs):
            said(f"{name}: {path.stem}")
            row = {"name": name, "tile": path.stem, "for": CAPABILITIES[kind], "run": False}
            began = time.monotonic()
            try:
                row["bytes"] = _plan(tensorrt, path, rewrite, recipe, CAPABILITIES[kind])
                row["seconds"] = round(time.monotonic() - began, 1)
            except DeviceError as error:
                row["missing"] = error.message
            rows.append(row)
    return rows


def _tiles(graphs: Path) -> list[Path]:
    return [graphs / "encoder.onnx", *sorted(graphs.glob("layers_*.onnx"))]


def _plan(
    tensorrt: TensorRT, path: Path, rewrite: Rewrite, recipe: MoonshineRecipe, capability: str
) -> int:
    """Bytes of the plan of a graph; raises `DeviceError` where there is none."""
    trt, said = tensorrt.api, list[str]()
    logger = make_logger(tensorrt, said.append, aloud=False)
    builder = trt.Builder(logger)
    with _rewritten(path, rewrite) as changed:
        network = parse(trt, builder, logger, changed)
    config = builder.create_builder_config()
    config.num_compute_capabilities = 1
    config.set_compute_capability(getattr(trt.ComputeCapability, capability), 0)
    profile, spans = builder.create_optimization_profile(), ranges(recipe, 1, SAMPLES)
    for name, tensor in signatures(recipe, "fp16")[path.stem].inputs.items():
        if -1 in tensor.open:
            least, usual, most = (
                tensor.sized({letter: getattr(span, end) for letter, span in spans.items()})
                for end in ("least", "usual", "most")
            )
            profile.set_shape(name, least, usual, most)
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise DeviceError(said[0] if said else "TensorRT gives no reason")
    return int(memoryview(plan).nbytes)


@contextmanager
def _rewritten(path: Path, rewrite: Rewrite) -> Iterator[Path]:
    model = onnx.load(path)
    rewrite(model)
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / path.name
        onnx.save(model, str(changed))
        yield changed


def _fp8(model: Any) -> None:
    """Each product with weights reads both sides through 8-bit floats (E4M3)."""
    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.array(_STEP), "fp8.step"))
    graph.initializer.append(helper.make_tensor("fp8.zero", TensorProto.FLOAT8E4M3FN, [], [0.0]))
    for site in _products(model):
        for side, name in enumerate(list(site.node.input)[:2]):
            out = f"{site.node.output[0]}.{side}"
            nodes = [
                helper.make_node("QuantizeLinear", [name, "fp8.step", "fp8.zero"], [f"{out}.fp8"]),
                helper.make_node(
                    "DequantizeLinear", [f"{out}.fp8", "fp8.step", "fp8.zero"], [f"{out}.wide"]
                ),
            ]
            _before(graph, site.node, nodes)
            site.node.input[side] = f"{out}.wide"


def _int4(model: Any) -> None:
    """Each weight (in, out) in 4 bits, by blocks of its input channels."""
    graph = model.graph
    for site in _products(model):
        weight = next(each for each in graph.initializer if each.name == site.name)
        rows, columns = weight.dims
        if rows % BLOCK:
            raise DeviceError(f"{site.name} has {rows} rows: no whole blocks of {BLOCK}")
        values = numpy_helper.to_array(weight).astype(np.float32)
        blocks = values.reshape(rows // BLOCK, BLOCK, columns)
        scales = (np.abs(blocks).max(axis=1) / 7).astype(np.float16)
        wide = np.repeat(scales.astype(np.float32), BLOCK, axis=0)
        rounded = np.clip(np.rint(values / np.maximum(wide, 1e-8)), -7, 7)
        graph.initializer.remove(weight)
        name = f"{site.name}.int4"
        graph.initializer.append(
            helper.make_tensor(
                name, TensorProto.INT4, [rows, columns], rounded.astype(np.int8).ravel()
            )
        )
        graph.initializer.append(numpy_helper.from_array(scales, f"{name}.scale"))
        node = helper.make_node(
            "DequantizeLinear", [name, f"{name}.scale"], [site.name], axis=0, block_size=BLOCK
        )
        _before(graph, site.node, [node])


def _products(model: Any) -> list[Any]:
    """The matrix products with weights of a graph, which gets the operators that they need."""
    model.opset_import[0].version = _OPSET
    model.ir_version = _IR
    return [site for site in sites(model) if site.kind == "matmul"]


def _before(graph: Any, node: Any, nodes: list[Any]) -> None:
    at = next(number for number, each in enumerate(graph.node) if each is node)
    for number, each in enumerate(nodes):
        graph.node.insert(at + number, each)

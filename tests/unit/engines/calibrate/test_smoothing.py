"""Factors between channels: exact where nothing is rounded, and less error where it is."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from edge_runtime.engines.calibrate.quantise import quantised, roundings
from edge_runtime.engines.calibrate.scheme import Product, Scheme
from edge_runtime.engines.calibrate.sites import sites
from edge_runtime.engines.calibrate.smoothing import (
    Channels,
    absorbed,
    channels,
    divided,
    factors,
)

APART = {
    "encoder": {"conv1", "conv3", "o_proj", "fc2"},
    "layers_0_1": {"o_proj", "fc2"},
    "layers_1_3": {"o_proj", "fc2"},
}


def test_channels_are_the_largest_of_all_clips() -> None:
    found = Channels()
    found.seen("a", np.float32([[1, -2, 0], [0.5, 1, 0]]))
    found.seen("a", np.float32([[-3, 1, 0]]))
    assert found.largest["a"].tolist() == [3, 2, 0]


def test_loud_channels_get_large_factors() -> None:
    largest = np.float32([8, 2, 1, 0])
    weight = np.float32([[1, -1], [1, 1], [0.5, 1], [1, 1]])
    found = np.array(factors("a", largest, weight, 0.5))
    # (8 · 2 · 1) ^ (1/3) is what makes their mean 1.
    np.testing.assert_allclose(found, [*np.sqrt([8, 2, 1]) / 16 ** (1 / 6), 1], rtol=1e-6)
    assert factors("a", largest, weight, 1.0)[0] == pytest.approx(8 / 16 ** (1 / 3))


@pytest.mark.parametrize("tile", ["encoder", "layers_0_1", "layers_1_3"])
def test_what_a_product_reads_is_divided_and_nothing_else_changes(full, sound, tile) -> None:
    model, random = full.graphs[tile], np.random.default_rng(4)
    fed = inputs(model, full, sound)
    apart = set()
    for site in sites(model):
        before = read(model, site.name, fed)
        count = channels(site.name, full.weights[site.name])
        smooth = np.exp(random.normal(0, 1, count)).astype(np.float32)
        products = {site.name: Product(smooth=tuple(map(float, smooth)))}
        weights = roundings({site.name: full.weights[site.name]}, Scheme(products=products))
        made = quantised(model, Scheme(products=products), "signed", weights)
        shape = (-1, 1) if site.kind == "conv" else (-1,)
        after = read(made, site.name, fed) * smooth.reshape(shape)
        np.testing.assert_allclose(after, before, rtol=2e-5, atol=1e-5)
        if any(node.name.endswith(".smooth") for node in made.graph.node):
            apart.add(site.name.rsplit(".", 2)[-2])
    # The norms took the factors of what reads them; the others cost a product.
    assert apart == APART[tile]
    names = {site.name for site in sites(model)}
    costly = {name for name in names if name.split(".")[-2:-1] and name.split(".")[-2] in apart}
    assert absorbed(model, full.weights) == names - costly


def test_ranges_are_seen_of_what_will_be_rounded() -> None:
    seen: dict[str, np.ndarray] = {}
    told = divided(seen.__setitem__, {"a": (2.0, 0.5)})
    for name in "ab":
        told(name, np.float32([[4, 3]]))
    assert seen["a"].tolist() == [[2, 6]]
    assert seen["b"].tolist() == [[4, 3]]


def inputs(model, full, sound) -> dict[str, np.ndarray]:
    """Something for each input of a tile: the sound, or numbers of a normal distribution."""
    random, sizes = np.random.default_rng(6), {"B": 1, "Q": 3, "T": 20}
    known = {"audio": sound[None], "length": np.array([len(sound)]), "position": np.array([2]),
             "memory_length": np.array([20]), "table": full.weights["table"]}  # fmt: skip
    fed = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = [dim.dim_value or sizes.get(dim.dim_param) for dim in dims]
        if value.name in known:
            fed[value.name] = known[value.name]
        else:
            fed[value.name] = random.normal(0, 1, shape).astype(np.float32)
    return fed


def read(model, name: str, fed: dict[str, np.ndarray]) -> np.ndarray:
    """What the product with that weight reads, in a graph of floats or a quantised one."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    weights = {name, f"{name}.float"}
    for node in exposed.graph.node:
        head = name == "table" and node.op_type == "MatMul" and node.input[1].startswith("transp")
        if node.op_type in ("MatMul", "Conv") and (node.input[1] in weights or head):
            exposed.graph.output.append(onnx.ValueInfoProto(name=node.input[0]))
    fed = dict(fed)
    kinds = {value.name: value.type.tensor_type.elem_type for value in exposed.graph.input}
    if kinds.get("table") == onnx.TensorProto.INT8:
        fed["table"] = fed["table"].astype(np.int8)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        exposed.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run([session.get_outputs()[-1].name], fed)[0]

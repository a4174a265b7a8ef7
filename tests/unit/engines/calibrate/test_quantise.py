"""Two spellings of one scheme: the same integers and numbers, in graphs that runtimes take."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, numpy_helper

from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Chain, Size
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.engines.calibrate import scheme as schemes
from edge_runtime.engines.calibrate.quantise import quantised, roundings
from edge_runtime.engines.calibrate.scheme import Product, Scheme
from edge_runtime.engines.calibrate.sites import as_matrix
from edge_runtime.engines.calibrate.sites import sites as sites_of
from edge_runtime.engines.calibrate.write import write_tiles
from edge_runtime.errors import CalibrationError

FORBIDDEN = {"If", "Loop", "Scan", "NonZero", "IsNaN"}


@pytest.fixture(scope="module")
def folder(tiny, arrays, scheme, tmp_path_factory):
    made: dict[tuple, Path] = {}

    def written(spelling: str, base: str = "fp32", of: Scheme = scheme) -> Path:
        key = (spelling, base, schemes.encode(of))
        if key not in made:
            made[key] = tmp_path_factory.mktemp("graphs")
            write_tiles(tiny, arrays, of, made[key], spelling, base)
        return made[key]

    return written


@pytest.mark.parametrize("spelling", ["signed", "unsigned"])
@pytest.mark.parametrize("base", ["fp32", "fp16"])
def test_every_tile_is_valid_and_holds_integers(folder, scheme, spelling, base) -> None:
    found = folder(spelling, base)
    assert np.load(found / "table.npy").dtype == np.int8
    assert schemes.load(found) == scheme
    integers = 0
    for path in found.glob("*.onnx"):
        onnx.checker.check_model(str(path), full_check=True)
        graph = onnx.load(path, load_external_data=False).graph
        assert not {node.op_type for node in graph.node} & FORBIDDEN
        assert spelling == "unsigned" or {node.domain for node in graph.node} == {""}
        kinds = {tensor.name: tensor.data_type for tensor in graph.initializer}
        assert TensorProto.INT8 in kinds.values() or path.stem == "embedding"
        whole = {name for name in kinds if kinds.get(f"{name}.scale")}
        integers += len({name.split(".weight")[0] for name in whole} - {"table.values"})
        read = {name for node in graph.node for name in node.input}
        assert kinds.keys() <= read
    # All but the table, which is in a file of its own.
    assert integers == len(scheme.products) - 1


def values(model, fed: dict, names: list[str], plain: bool) -> dict[str, np.ndarray]:
    """Tensors inside a graph, run as it stands there or as onnxruntime fuses it."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    model = exposed
    for name in names:
        model.graph.output.append(onnx.ValueInfoProto(name=name))
    options = ort.SessionOptions()
    if plain:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    wanted = [each.name for each in session.get_outputs()]
    return dict(zip(wanted, session.run(None, fed), strict=True))


@pytest.fixture(scope="module")
def spelt(full, scheme):
    """The encoder in a spelling."""
    weights = roundings(full.weights, scheme)
    return lambda spelling: quantised(full.graphs["encoder"], scheme, spelling, weights)


def test_both_spellings_are_the_same_arithmetic(spelt, sound) -> None:
    """As they stand there, without a fusion: the integers, and every output bit for bit."""
    fed = {"audio": sound[None], "length": np.array([len(sound)])}
    found = {}
    for spelling in ("signed", "unsigned"):
        model = spelt(spelling)
        nodes = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
        found[spelling] = values(model, fed, [node.output[0] for node in nodes], plain=True)
    signed, unsigned = found["signed"], found["unsigned"]
    assert signed.keys() == unsigned.keys()
    rounded = [name for name in signed if name.endswith(".rounded")]
    assert len(rounded) == 12
    for name in rounded:
        assert signed[name].dtype == np.int8
        assert unsigned[name].dtype == np.uint8
        assert (signed[name].astype(np.int64) + 128 == unsigned[name]).all()
    for name in signed.keys() - set(rounded):
        np.testing.assert_array_equal(signed[name], unsigned[name])


def test_sums_of_integers_do_not_become_float16(folder, scheme) -> None:
    """They go far beyond it before they are scaled."""
    for tile in ("encoder", "layers_0_1"):
        model = onnx.load(str(folder("signed", "fp16", scheme) / f"{tile}.onnx"))
        types = {each.name: each.data_type for each in model.graph.initializer}
        scales = {
            node.output[0]: types[node.input[1]]
            for node in model.graph.node
            if node.op_type == "DequantizeLinear"
        }
        products = [node for node in model.graph.node if node.op_type == "MatMul"]
        read = [[scales.get(name) for name in node.input] for node in products]
        integers = [each for each in read if all(each)]
        assert integers
        assert all(each == [TensorProto.FLOAT] * 2 for each in integers)


def test_what_onnxruntime_fuses_is_the_product_of_the_integers(spelt, sound) -> None:
    """Each product of the encoder against numpy's, of the integers that went into it."""
    model = spelt("unsigned")
    constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    writers = {node.output[0]: node for node in model.graph.node}
    products = [
        (writers[node.input[0]].input, writers[node.input[1]].input, node.output[0])
        for node in model.graph.node
        if node.op_type == "MatMul" and node.input[1].endswith(".float")
    ]
    # conv2 and conv3 are one each; q and k, v, output, fc1, fc2 of two layers; k, v of three.
    assert len(products) == 2 + 2 * 5 + 2 * 3
    names = {name: None for activation, _, output in products for name in (activation[0], output)}
    fed = {"audio": sound[None], "length": np.array([len(sound)])}
    found = values(model, fed, list(names), plain=False)
    for activation, weight, output in products:
        sums = (found[activation[0]].astype(np.int64) - 128) @ constants[weight[0]].astype(np.int64)
        expected = sums * (constants[activation[1]].astype(np.float64) * constants[weight[1]])
        np.testing.assert_allclose(found[output], expected, rtol=2e-6, atol=1e-6)


def test_windows_are_the_convolution(spelt, scheme, full, sound) -> None:
    """The float convolution of the rounded activation with the rounded weight."""
    name = "model.encoder.conv2.weight"
    fed = {"audio": sound[None], "length": np.array([len(sound)])}
    found = values(spelt("unsigned"), fed, [f"{name}.rounded", f"{name}.product"], plain=False)
    x = (found[f"{name}.rounded"].astype(np.float64) - 128)[0] * scheme.products[name].scale
    weight = roundings(full.weights, scheme)[name].floats.reshape(7, 24, 48)
    expected = [
        sum(x[:, 3 * n + tap] @ weight[tap] for tap in range(7))
        for n in range((x.shape[1] - 7) // 3 + 1)
    ]
    np.testing.assert_allclose(found[f"{name}.product"][0], expected, rtol=1e-4, atol=1e-4)


def run(folder: Path, sound: np.ndarray):
    runner = Runner(Chain(OnnxDevice(lanes=1), folder), Size(1, len(sound)))
    update = Update("t", 0, Purpose.FINAL, 0, len(sound), limit=20)
    return runner.run([update], [[sound]])[0]


def test_the_chain_runs_and_is_near_the_floats(folder, sound) -> None:
    floats = run(folder("unsigned", of=Scheme(products={})), sound)
    assert len(set(floats.tokens)) > 3
    for spelling in ("signed", "unsigned"):
        found = run(folder(spelling), sound)
        first = next(
            (n for n, pair in enumerate(zip(floats.tokens, found.tokens, strict=False))
             if pair[0] != pair[1]), len(floats.tokens),
        )  # fmt: skip
        assert first >= 3
        np.testing.assert_allclose(found.logprobs[:first], floats.logprobs[:first], atol=0.3)


def test_an_empty_scheme_changes_nothing(full) -> None:
    for model in full.graphs.values():
        for spelling in ("signed", "unsigned"):
            same = quantised(model, Scheme(products={}), spelling, {})
            assert same.SerializeToString() == model.SerializeToString()


def test_the_same_scheme_gives_the_same_bytes(tiny, arrays, scheme, folder, tmp_path) -> None:
    write_tiles(tiny, arrays, scheme, tmp_path, "unsigned")
    before = folder("unsigned")
    assert {path.name for path in before.iterdir()} == {path.name for path in tmp_path.iterdir()}
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (before / path.name).read_bytes(), path.name


def test_floats_of_another_width(tiny, arrays, folder, sound, full) -> None:
    """Kept in float16 where the graph is float32; computed in float32 where it is float16."""
    name = "model.encoder.conv3.weight"
    narrow = Scheme(products={name: Product(precision="fp16")})
    graph = onnx.load(folder("unsigned", of=narrow) / "encoder.onnx").graph
    (kept,) = [tensor for tensor in graph.initializer if tensor.name == name]
    np.testing.assert_array_equal(
        numpy_helper.to_array(kept), as_matrix(full.weights[name]).astype(np.float16)
    )
    found = run(folder("unsigned", of=narrow), sound)
    floats = run(folder("unsigned", of=Scheme(products={})), sound)
    np.testing.assert_allclose(found.logprobs[:3], floats.logprobs[:3], atol=0.05)
    wide = Scheme(products={name: Product(precision="fp32")})
    path = folder("signed", "fp16", wide) / "encoder.onnx"
    onnx.checker.check_model(str(path), full_check=True)
    (site,) = [site for site in sites_of(onnx.load(path)) if "conv2" in site.name]
    assert site.kind == "conv"
    fed = {"audio": sound[None], "length": np.array([len(sound)])}
    inside = values(onnx.load(path), fed, [f"{name}.wide"], plain=True)
    assert inside[f"{name}.wide"].dtype == np.float32


def test_weights_alone(folder, sound, full) -> None:
    """Without a scale the activation stays as it is."""
    products = {name: Product() for name in full.weights}
    found = run(folder("signed", of=Scheme(products=products)), sound)
    floats = run(folder("signed", of=Scheme(products={})), sound)
    np.testing.assert_allclose(found.logprobs[:3], floats.logprobs[:3], atol=0.2)
    for path in folder("signed", of=Scheme(products=products)).glob("*.onnx"):
        assert "QuantizeLinear" not in {node.op_type for node in onnx.load(path).graph.node}


def test_products_that_the_model_has_not(tiny, arrays, tmp_path) -> None:
    with pytest.raises(CalibrationError, match=r"names model\.other\.weight.*another recipe"):
        write_tiles(
            tiny, arrays, Scheme(products={"model.other.weight": Product()}), tmp_path, "signed"
        )
    assert not list(tmp_path.iterdir())


def test_a_convolution_as_a_matrix() -> None:
    weight = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    matrix = as_matrix(weight)
    assert matrix.shape == (12, 2)
    assert matrix[1 * 3 + 2, 1] == weight[1, 2, 1]

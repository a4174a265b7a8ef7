"""Every graph parses in TensorRT-RTX and builds there, on a machine without a GPU."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
from pathlib import Path
from typing import Any

import onnx
import pytest

from edge_runtime.engines.export import export
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store

RANGES = {"B": (1, 1, 8), "N": (32_000, 128_000, 278_400), "T": (82, 330, 723), "Q": (1, 16, 112)}
"""Least, usual and most of every free dimension; frames belong to the samples."""


@pytest.fixture(scope="module")
def tensorrt() -> Any:
    if importlib.util.find_spec("tensorrt_rtx_bindings") is None:
        where = f"{platform.system()} {platform.machine()}"
        pytest.skip(f"TensorRT-RTX is not installed on this {where}: pip install .[rtx]")
    libraries = importlib.util.find_spec("tensorrt_rtx_libs")
    assert libraries is not None
    folder = Path(next(iter(libraries.submodule_search_locations or ())))
    for name in ("libtensorrt_rtx.so.1", "libtensorrt_onnxparser_rtx.so.1"):
        ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL)
    import tensorrt_rtx_bindings

    return tensorrt_rtx_bindings


@pytest.fixture(scope="module")
def builder(tensorrt) -> Any:
    return tensorrt.Builder(tensorrt.Logger(tensorrt.Logger.ERROR))


@pytest.fixture(scope="module", params=["fp32", "fp16"])
def graphs(request, recipe, weights_folder, tmp_path_factory) -> Path:
    if request.param == "fp32":
        return Store().graphs(recipe)
    folder = tmp_path_factory.mktemp("fp16")
    export(recipe, weights_folder, folder, request.param)
    return folder


@pytest.mark.parametrize("name", ["encoder", "embedding", "layers_0_3", "layers_3_6"])
def test_a_tile_builds(tensorrt, builder, graphs: Path, name: str) -> None:
    plan, network = built(tensorrt, builder, graphs / f"{name}.onnx")
    model = onnx.load(graphs / f"{name}.onnx")
    inputs = {network.get_input(n).name for n in range(network.num_inputs)}
    outputs = {network.get_output(n).name for n in range(network.num_outputs)}
    assert inputs == {tensor.name for tensor in model.graph.input}
    assert outputs == {tensor.name for tensor in model.graph.output}
    assert plan.nbytes > sum(len(tensor.raw_data) for tensor in model.graph.initializer) // 2


def test_the_voice_detector_builds(tensorrt, builder, loaded) -> None:
    path = Store().graphs(load_recipe("silero-vad")) / "vad.onnx"
    plan, network = built(tensorrt, builder, path)
    assert network.num_inputs == 3
    assert plan.nbytes > 100_000


def built(tensorrt: Any, builder: Any, path: Path) -> tuple[Any, Any]:
    """The serialised plan and the network it is of; networks are strongly typed."""
    network = builder.create_network(0)
    parser = tensorrt.OnnxParser(network, tensorrt.Logger(tensorrt.Logger.ERROR))
    parsed = parser.parse_from_file(str(path))
    errors = [str(parser.get_error(n)) for n in range(parser.num_errors)]
    assert parsed, errors
    config, profile = builder.create_builder_config(), builder.create_optimization_profile()
    for tensor in onnx.load(path).graph.input:
        sizes = [d.dim_param or d.dim_value for d in tensor.type.tensor_type.shape.dim]
        if any(isinstance(size, str) for size in sizes):
            profile.set_shape(
                tensor.name, *(tuple(RANGES.get(s, (s, s, s))[n] for s in sizes) for n in range(3))
            )
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    assert plan is not None
    return plan, network

"""Every graph keeps to the names and the operators that all runtimes share."""

from pathlib import Path

import onnx
import pytest

from edge_runtime.engines.export import export
from edge_runtime.errors import RecipeError

FORBIDDEN = {"If", "Loop", "Scan", "NonZero", "IsNaN", "Unique", "Compress"}
LAYERS = range(6)


def names(kind: str, layers) -> set[str]:
    return {f"{kind}_{part}_{layer}" for part in "kv" for layer in layers}


@pytest.fixture(scope="module", params=["fp32", "fp16"])
def graphs(request, recipe, weights_folder, tmp_path_factory) -> dict[str, onnx.ModelProto]:
    folder = tmp_path_factory.mktemp(request.param)
    told: list[tuple[str, int, int]] = []
    export(recipe, weights_folder, folder, request.param, lambda *said: told.append(said))
    assert [done for _, done, _ in told] == list(range(len(told)))
    assert {total for _, _, total in told} == {4}
    assert {path.name for path in folder.iterdir()} == {
        "encoder.onnx", "embedding.onnx", "layers_0_3.onnx", "layers_3_6.onnx",
        "table.npy", "shape.json", "vocabulary.json",
    }  # fmt: skip
    return {path.stem: onnx.load(path) for path in Path(folder).glob("*.onnx")}


def test_is_valid_and_understood_everywhere(graphs) -> None:
    for model in graphs.values():
        onnx.checker.check_model(model, full_check=True)
        assert model.ir_version <= 10
        ((domain, version),) = [(o.domain, o.version) for o in model.opset_import]
        assert domain == ""
        assert version <= 18
        assert not {node.op_type for node in model.graph.node} & FORBIDDEN
        assert all(node.domain == "" for node in model.graph.node)


def test_names_are_the_contract(graphs) -> None:
    signature = {
        name: ({i.name for i in model.graph.input}, {o.name for o in model.graph.output})
        for name, model in graphs.items()
    }
    decoder = {"hidden", "position", "memory_length"}
    assert signature == {
        "encoder": ({"audio", "length"}, {"memory_length"} | names("memory", LAYERS)),
        "embedding": ({"tokens", "table"}, {"hidden"}),
        "layers_0_3": (
            decoder | names("past", range(3)) | names("memory", range(3)),
            {"hidden_next", "position_next", "align_next"} | names("new", range(3)),
        ),
        "layers_3_6": (
            decoder | {"align_past", "table"}
            | names("past", range(3, 6)) | names("memory", range(3, 6)),
            {"next_token", "logprob", "margin", "frame", "align", "position_next"}
            | names("new", range(3, 6)),
        ),
    }  # fmt: skip


def test_weights_have_the_precision_of_the_graph(graphs) -> None:
    sizes = {}
    for model in graphs.values():
        for tensor in model.graph.initializer:
            sizes[tensor.data_type] = sizes.get(tensor.data_type, 0) + len(tensor.raw_data)
    floats = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16}
    most = max(floats & sizes.keys(), key=sizes.__getitem__)
    taken = {v.type.tensor_type.elem_type for v in graphs["embedding"].graph.output}
    assert taken == {most}
    assert sizes[most] > 0.99 * sum(sizes[kind] for kind in floats & sizes.keys())
    # The embedding table is an input of both ends, and in no graph.
    assert sum(sizes.values()) < 80_000_000
    assert all(
        32768 not in tensor.dims for model in graphs.values() for tensor in model.graph.initializer
    )


def test_the_detector_keeps_to_it_too(loaded) -> None:
    from edge_runtime.engines.recipe import load_recipe
    from edge_runtime.engines.store import Store

    model = onnx.load(Store().graphs(load_recipe("silero-vad")) / "vad.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert not {node.op_type for node in model.graph.node} & FORBIDDEN
    assert {i.name for i in model.graph.input} == {"audio", "rows", "frames", "h", "c"}


def test_an_unknown_precision(recipe, weights_folder, tmp_path) -> None:
    with pytest.raises(RecipeError, match=r"unknown precision 'int4'.*fp32 or fp16"):
        export(recipe, weights_folder, tmp_path, "int4")
    assert not list(tmp_path.iterdir())

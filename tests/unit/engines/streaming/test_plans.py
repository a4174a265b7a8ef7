"""What is made of published transducers is what TensorRT reads and builds, in batches too."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from edge_runtime.device.tensorrt.logger import make_logger
from edge_runtime.device.tensorrt.module import find_tensorrt
from edge_runtime.engines.build import BuildOptions, build, chunked
from edge_runtime.engines.build.contract import Signature, Tensor, check
from edge_runtime.engines.build.profiles import Range
from edge_runtime.engines.build.tile import Work, build_tile, found, parse
from edge_runtime.engines.export.streaming import transducer
from edge_runtime.engines.plans import Wanted, find
from edge_runtime.engines.recipe import TransducerRecipe, load_recipe
from edge_runtime.engines.store import Store
from edge_runtime.errors import EngineMismatch, RecipeError
from tests.tiny import fastconformer, making, moonshine_streaming, zipformer

pytestmark = pytest.mark.usefixtures("needs_rtx")


@pytest.mark.parametrize("write", [zipformer.write, fastconformer.write])
def test_tensorrt_reads_what_its_contract_says(tmp_path, write):
    _, graphs = making.exported(tmp_path, write)
    api = find_tensorrt("tensorrt_rtx").api
    for name, signature in chunked.signatures(graphs).items():
        logger = make_logger(find_tensorrt("tensorrt_rtx"), [].append, aloud=False)
        check(
            name, signature, found(parse(api, api.Builder(logger), logger, graphs / f"{name}.onnx"))
        )


def test_an_engine_is_built_and_found(tmp_path, monkeypatch):
    monkeypatch.setattr(transducer, "MARGIN", 0)  # unrolled loops take longest to build
    recipe = load_recipe(making.stored(tmp_path, fastconformer.write))
    recipe = msgspec.structs.replace(recipe, requires=())  # no detector is in this store
    store = Store(tmp_path)
    options = BuildOptions(precision="fp32", tensorrt="tensorrt_rtx", rows=2, samples=320_000)
    folder = build(recipe, store, options)
    wanted = Wanted("fp32", "tensorrt_rtx", options_version(), rows=2, samples=320_000)
    engine = find(store, recipe, wanted)
    assert engine.folder == folder
    names = {path.name for path in folder.iterdir()}
    assert {"encoder.plan", "greedy.plan", "shape.json", "vocabulary.json", "proof.npz"} <= names
    assert isinstance(engine.recipe(), TransducerRecipe)
    with pytest.raises(EngineMismatch, match="rows"):
        find(store, recipe, replace(wanted, rows=3))
    with pytest.raises(RecipeError, match="as it is published"):
        build(recipe, store, replace(options, precision="fp16"))
    with pytest.raises(RecipeError, match="no layers to cut"):
        build(recipe, store, replace(options, split=(1,)))


def options_version() -> str:
    return find_tensorrt("tensorrt_rtx").version


def test_tensorrt_reads_the_programs_of_a_growing_memory(tmp_path):
    _, graphs = making.exported(tmp_path, moonshine_streaming.write, recipe=making.growing)
    work = Work(find_tensorrt("tensorrt_rtx"), 1 << 28)
    api = work.tensorrt.api
    letters = {
        "decoder_kv": {
            "token": (1, "Q"), "k_self": (2, 1, 2, "P", 6), "v_self": (2, 1, 2, "P", 6),
            "out_k_cross": (2, 1, 2, "T", 6), "out_v_cross": (2, 1, 2, "T", 6),
        },
    }  # fmt: skip
    ranges = {"Q": Range(1, 1, 16), "P": Range(1, 16, 32), "T": Range(4, 40, 80)}
    for path in sorted(graphs.glob("*.onnx")):
        logger = make_logger(work.tensorrt, [].append, aloud=False)
        signature = found(parse(api, api.Builder(logger), logger, path))
        if path.stem not in letters:
            continue
        inputs = {
            name: Tensor(each.dtype, letters[path.stem][name])
            for name, each in signature.inputs.items()
        }
        plan = build_tile(work, path, Signature(inputs, signature.outputs), [ranges])
        assert len(bytes(plan)) > 100_000

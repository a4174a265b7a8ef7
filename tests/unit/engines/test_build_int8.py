"""Engines of 8-bit integers: built of the calibrated model that is active, or that is named."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper

from edge_runtime.engines import bundle, plans, variants
from edge_runtime.engines.board import Board
from edge_runtime.engines.build import BuildOptions, build
from edge_runtime.engines.build.source import source
from edge_runtime.engines.calibrate.scheme import Product, Scheme
from edge_runtime.engines.engine import EngineInfo, read
from edge_runtime.engines.form import Form, form
from edge_runtime.engines.plans import Wanted, find, unlike_here
from edge_runtime.engines.store import Store, graphs_fingerprint
from edge_runtime.errors import EngineMismatch, ModelMissing

INT8 = BuildOptions("int8", "tensorrt_rtx", rows=2, samples=16_000)
HERE = Board((8, 7), "Orin", "", "", 1 << 33, "")
RTX = pytest.mark.skipif(
    importlib.util.find_spec("tensorrt_rtx_bindings") is None,
    reason="TensorRT-RTX is not installed: pip install .[rtx]",
)


@pytest.mark.parametrize("tiles", [(1, 2), (3,), (1, 1, 1)])
@pytest.mark.parametrize("table", [True, False])
def test_the_contract_is_what_the_quantiser_writes(
    calibrated, made_up, made_up_store, made_up_scheme, tiles, table
) -> None:
    scheme = made_up_scheme
    if not table:
        products = {**scheme.products, "table": Product(precision="fp16")}
        scheme = Scheme(products=products)
    calibrated(scheme)
    of = source(made_up_store, made_up, plans.split(made_up, tiles), "int8")
    with made_up_store.lock("made-up"), of.graphs() as folder:
        for name, signature in of.signatures().items():
            graph = onnx.load(folder / f"{name}.onnx").graph
            for wanted, given in (
                (signature.inputs, graph.input), (signature.outputs, graph.output),
            ):  # fmt: skip
                found = {value.name: value.type.tensor_type for value in given}
                assert wanted.keys() == found.keys()
                for each, tensor in wanted.items():
                    kind = helper.tensor_dtype_to_np_dtype(found[each].elem_type)
                    assert tensor.dtype == kind, (name, each)
                    sizes = [size.dim_value or -1 for size in found[each].shape.dim]
                    assert list(tensor.open) == sizes, (name, each)
        content = np.load(folder / "table.npy")
    assert content.dtype == (np.int8 if table else np.float16)
    assert content.shape == (50, 24)
    assert not folder.exists()


def test_without_a_calibrated_model_it_is_said_how_to_make_one(
    calibrated, made_up, made_up_store
) -> None:
    with pytest.raises(ModelMissing) as caught:
        source(made_up_store, made_up, made_up, "int8")
    assert "no calibrated made-up is active" in str(caught.value)
    assert "Run: edge-runtime calibrate made-up --audio DIR" in str(caught.value)
    name = calibrated(candidate=True).name
    with pytest.raises(ModelMissing):
        source(made_up_store, made_up, made_up, "int8")
    of = source(made_up_store, made_up, made_up, "int8", name[:6])
    assert of.variant is not None
    assert of.variant.folder.name == name
    assert source(made_up_store, made_up, made_up, "fp16").variant is None


def test_what_to_compute_in_follows_the_settings_and_the_store(
    calibrated, made_up, made_up_store, monkeypatch
) -> None:
    def chosen(precision: str) -> Form:
        return form(made_up_store, made_up, precision, full="fp16")

    assert chosen("auto") == Form("fp16")
    assert chosen("int8") == Form("int8")
    calibrated()
    active = variants.active(made_up_store, made_up)
    assert chosen("auto") == Form("int8", active, full="fp16")
    assert chosen("int8") == Form("int8", active)
    for precision in ("fp16", "fp32"):
        assert chosen(precision) == Form(precision)
    monkeypatch.setattr("edge_runtime.engines.store._quantiser", lambda: "another")
    refused = chosen("auto")
    assert (refused.precision, refused.variant) == ("fp16", None)
    assert "differs in graphs" in str(refused.unused)
    assert "Run: edge-runtime calibrate made-up" in str(refused.unused)
    with pytest.raises(EngineMismatch, match="differs in graphs"):
        chosen("int8")


@RTX
def test_an_engine_is_built_found_and_carried(
    calibrated, made_up, made_up_store, made_up_scheme, tmp_path
) -> None:
    settings = {"listening.threshold": 0.6}
    variant = variants.read(calibrated(made_up_scheme, forced=True, settings=settings))
    folder = build(made_up, made_up_store, INT8)
    engine = read(folder)
    engine.check(verify=True)
    assert {path.name for path in folder.iterdir()} == {
        "encoder.plan", "embedding.plan", "layers_0_1.plan", "layers_1_3.plan", "table.npy",
        "shape.json", "vocabulary.json", "recipe.json", "engine.json", "manifest.json",
        "proof.npz",
    }  # fmt: skip
    assert np.load(folder / "table.npy").dtype == np.int8
    info = engine.info
    assert (info.precision, info.scheme) == ("int8", variant.info.scheme)
    assert (info.variant, info.forced) == (variant.info.fingerprint, True)
    assert info.settings == settings
    assert [path.name for path in folder.parent.glob(".*")] == []
    before = (folder / "engine.json").stat().st_ino
    assert build(made_up, made_up_store, INT8) == folder
    assert (folder / "engine.json").stat().st_ino == before
    # It is found by its scheme, and where nobody asks for one.
    wanted = Wanted("int8", info.tensorrt, info.version, (8, 7), scheme=info.scheme)
    for each in (wanted, replace(wanted, scheme=None)):
        assert find(made_up_store, made_up, each).folder == folder
    assert unlike_here(made_up_store, engine, HERE) == []
    tar = tmp_path / "made-up.tar"
    bundle.export(engine, tar)
    other = Store(tmp_path / "other")
    brought, came = bundle.bring(other, tar, HERE)
    assert came
    assert brought.info == info
    assert find(other, made_up, replace(wanted, scheme=None)).folder == brought.folder


@RTX
def test_one_that_is_named_is_built_while_another_is_active(
    calibrated, made_up, made_up_store, made_up_scheme
) -> None:
    calibrated(Scheme(products={"table": made_up_scheme.products["table"]}))
    tried = calibrated(made_up_scheme, candidate=True).name
    engine = read(build(made_up, made_up_store, replace(INT8, variant=tried[:8], split=(3,))))
    assert engine.info.variant == tried
    assert engine.info.split == (3,)
    wanted = Wanted("int8", engine.info.tensorrt, engine.info.version, scheme=engine.info.scheme)
    assert find(made_up_store, made_up, wanted).folder == engine.folder


def test_an_engine_of_another_scheme_is_not_taken(made_up, made_up_store) -> None:
    hashes = made_up_store.hashes(made_up)
    info = EngineInfo(
        model="made-up", recipe=made_up.hash, weights=hashes, precision="int8", scheme="a" * 64,
        graphs=graphs_fingerprint(made_up, "int8", hashes.values(), "a" * 64),
        split=made_up.decoder_tiles, tensorrt="tensorrt", version="10.3.0", target=("8.7",),
        rows=12, samples=278_400, queries=16,
    )  # fmt: skip

    def unlike(**wanted: str) -> list[str]:
        asked = replace(Wanted("int8", "tensorrt", "10.3.0"), **wanted)
        return [each.field for each in plans.differences(made_up_store, made_up, info, asked)]

    assert unlike(scheme="a" * 64) == []
    assert unlike() == []
    assert unlike(scheme="b" * 64) == ["scheme"]
    assert unlike(precision="fp16") == ["precision"]
    asked = Wanted("int8", "tensorrt", "10.3.0", scheme="b" * 64, variant="c" * 16)
    assert asked.command("made-up") == (
        f"edge-runtime build made-up --precision int8 --variant {'c' * 16} --tensorrt tensorrt"
    )


def test_engines_in_floating_point_are_named_as_before(made_up, made_up_store) -> None:
    """By a hash over their fields as there were when there was no scheme."""
    info = EngineInfo(
        model="m", recipe="r", weights={"w": "0"}, graphs="g", precision="fp16", split=(6,),
        tensorrt="tensorrt", version="10.3.0", target=("8.7",), rows=12, samples=278_400,
        queries=113,
    )  # fmt: skip
    assert info.fingerprint == "a6798a359dffea2c"
    assert msgspec.structs.replace(info, scheme="s").fingerprint != info.fingerprint
    assert msgspec.structs.replace(info, variant="v", forced=True).fingerprint == info.fingerprint

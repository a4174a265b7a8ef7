"""Calibrated models in the store: whole or not at all, the same bytes each time, and refused
where they are of another model."""

from __future__ import annotations

import ast
import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest

from edge_runtime.engines import choice, store, variants
from edge_runtime.engines.build import BuildOptions
from edge_runtime.engines.calibrate import gate
from edge_runtime.engines.calibrate.scheme import Product, Scheme, step
from edge_runtime.engines.choice import Choice
from edge_runtime.engines.engine import engines
from edge_runtime.engines.store import Store
from edge_runtime.engines.variant import VariantInfo, describe, read
from edge_runtime.errors import (
    CalibrationError,
    ConfigError,
    EngineMismatch,
    ModelDamaged,
    ModelMissing,
)

AGAIN = "Run: edge-runtime calibrate made-up --audio DIR"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_holds_all_that_serving_takes_and_nothing_of_the_host(
    calibrated, made_up, made_up_store, made_up_scheme
) -> None:
    folder = calibrated(made_up_scheme)
    assert set(files(folder)) == {
        "encoder.onnx", "embedding.onnx", "layers_0_1.onnx", "layers_1_3.onnx", "table.npy",
        "shape.json", "vocabulary.json", "scheme.json", "recipe.json", "calibration.json",
        "manifest.json",
    }  # fmt: skip
    variant = variants.active(made_up_store, made_up)
    assert variant is not None
    assert (variant.folder, variant.folder.name) == (folder, variant.info.fingerprint)
    assert variant.scheme() == made_up_scheme
    assert variant.recipe() == made_up
    assert variant.size == sum(map(len, files(folder).values()))
    variant.check(verify=True)
    assert np.load(folder / "table.npy").dtype == np.int8
    info = variant.info
    assert (info.model, info.recipe, info.precision) == ("made-up", made_up.hash, "int8")
    assert info.weights == made_up_store.hashes(made_up)


def test_two_installs_of_the_same_give_the_same_bytes(
    calibrated, made_up_store, made_up_scheme, tmp_path
) -> None:
    first = files(calibrated(made_up_scheme, settings={"b.c": 2.0, "a.b": 1.0}))
    other = Store(tmp_path / "other")
    (other.root / "made-up").mkdir(parents=True)
    (other.root / "made-up" / "weights").symlink_to(made_up_store.root / "made-up" / "weights")
    again = calibrated(made_up_scheme, store=other, settings={"a.b": 1.0, "b.c": 2.0})
    assert files(again) == first
    assert files(calibrated(made_up_scheme, settings={"a.b": 1.0, "b.c": 2.0})) == first


def test_the_verdict_is_told(made_up, made_up_store) -> None:
    said = [
        gate.Outcome("one", 3.0, "a b c d", "a b c e", "a b c d"),
        gate.Outcome("two", 2.0, "a b", "a b", None),
    ]
    verdict = gate.judge(said, 50.0)
    info = describe(made_up_store, made_up, Scheme(products={}), verdict, forced=True)
    assert (info.words, info.clips, info.transcribed, info.forced) == (6, 2, True, True)
    assert info.wer_increase == pytest.approx(100 / 6)
    assert info.low <= info.wer_increase <= info.high
    assert describe(made_up_store, made_up, Scheme(products={})).wer_increase is None


def test_the_fingerprint_follows_the_scheme_and_nothing_that_was_judged(
    made_up, made_up_store, made_up_scheme
) -> None:
    def fingerprint(scheme: Scheme, **told: object) -> str:
        return describe(made_up_store, made_up, scheme, **told).fingerprint

    first = fingerprint(made_up_scheme)
    assert fingerprint(made_up_scheme, forced=True, settings={"a.b": 1.0}) == first
    changed = {**made_up_scheme.products, "table": Product(scale=step(3.0))}
    assert fingerprint(Scheme(products=changed)) != first
    split = msgspec.structs.replace(made_up, decoder_tiles=(3,))
    assert describe(made_up_store, split, made_up_scheme).fingerprint != first


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "table.npy").unlink(), r"no table\.npy was written"),
        (lambda folder: (folder / "scheme.json").write_text("{}"), "not the one that was judged"),
    ],
)
def test_what_does_not_hold_together_is_not_installed(
    calibrated, made_up, made_up_store, spoil, said
) -> None:
    with pytest.raises(CalibrationError, match=said):
        calibrated(spoil=spoil)
    assert variants.variants(made_up_store) == []
    assert choice.read(made_up_store, "made-up") == Choice()


def test_an_install_that_breaks_off_leaves_all_as_it_was(
    calibrated, made_up_store, made_up_scheme
) -> None:
    first = calibrated()
    before, names = files(first), {path.name for path in first.parent.iterdir()}

    def spoil(folder: Path) -> None:
        raise KeyboardInterrupt

    for scheme in (None, made_up_scheme):  # in the place of the first, and beside it
        with pytest.raises(KeyboardInterrupt):
            calibrated(scheme, spoil=spoil)
    assert files(first) == before
    assert {path.name for path in first.parent.iterdir()} == names
    assert choice.read(made_up_store, "made-up") == Choice(active=first.name, before=(None,))


def test_nobody_sees_a_variant_before_it_is_whole(calibrated, made_up, made_up_store) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def spoil(folder: Path) -> None:
        inside.set()
        assert go_on.wait(10)

    thread = threading.Thread(target=calibrated, kwargs={"spoil": spoil})
    thread.start()
    assert inside.wait(30)
    assert variants.variants(made_up_store) == []
    assert variants.active(made_up_store, made_up) is None
    go_on.set()
    thread.join()
    assert variants.active(made_up_store, made_up) is not None


def test_a_candidate_waits_until_it_is_promoted_and_can_be_taken_back(
    calibrated, made_up, made_up_store, made_up_scheme
) -> None:
    def names() -> list[str | None]:
        found = (
            variants.active(made_up_store, made_up),
            variants.candidate(made_up_store, made_up),
        )
        return [each and each.folder.name for each in found]

    first = calibrated().name
    second = calibrated(made_up_scheme, candidate=True).name
    assert names() == [first, second]
    assert variants.promote(made_up_store, "made-up").folder.name == second
    assert names() == [second, None]
    with pytest.raises(ModelMissing, match="no calibrated made-up is on trial"):
        variants.promote(made_up_store, "made-up")
    assert variants.rollback(made_up_store, "made-up") == first
    assert names() == [first, None]
    assert variants.rollback(made_up_store, "made-up") is None
    assert names() == [None, None]
    with pytest.raises(ModelMissing, match="serves in full precision, and nothing served before"):
        variants.rollback(made_up_store, "made-up")
    assert variants.promote(made_up_store, "made-up", second[:5]).folder.name == second
    assert names() == [second, None]


def test_one_is_named_by_how_its_fingerprint_begins(
    calibrated, made_up_store, made_up_scheme
) -> None:
    first, second = calibrated(), calibrated(made_up_scheme)
    assert variants.find(made_up_store, "made-up", first.name[:8]).folder == first
    with pytest.raises(ConfigError, match="made-up has 2 variants"):
        variants.find(made_up_store, "made-up")
    with pytest.raises(ModelMissing, match="no calibrated model nothing of made-up"):
        variants.find(made_up_store, "made-up", "nothing")
    assert {each.folder for each in variants.variants(made_up_store)} == {first, second}


def test_what_was_rejected_says_why_and_is_tried_no_more(
    calibrated, made_up, made_up_store
) -> None:
    name = calibrated(candidate=True).name
    variants.reject(made_up_store, "made-up", name, "too slow")
    assert variants.candidate(made_up_store, made_up) is None
    assert choice.read(made_up_store, "made-up").state(name) == "rejected: too slow"
    # An operator may think otherwise; then the verdict of a trial comes too late.
    variants.promote(made_up_store, "made-up", name)
    with pytest.raises(ConfigError, match=r"was promoted .*engines rollback made-up"):
        variants.reject(made_up_store, "made-up", name, "too slow")
    assert choice.read(made_up_store, "made-up").state(name) == "active"


def test_a_variant_that_is_removed_gives_way_to_what_was_before(
    calibrated, made_up, made_up_store, made_up_scheme
) -> None:
    first = calibrated()
    calibrated(made_up_scheme)
    active = variants.active(made_up_store, made_up)
    assert active is not None
    assert variants.remove(made_up_store, active).active == first.name
    assert not active.folder.exists()
    assert variants.remove(made_up_store, read(first)) == Choice()
    assert variants.active(made_up_store, made_up) is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"recipe": "0" * 64}, "recipe (wanted"),
        ({"weights": {"model.safetensors": "0" * 64}}, "weights (wanted model.safetensors"),
        ({"graphs": "0" * 16}, "graphs (exported by another version of edge-runtime)"),
    ],
)
def test_one_of_another_model_is_refused_field_by_field(
    calibrated, made_up, made_up_store, change, field
) -> None:
    folder = calibrated()
    path = folder / "calibration.json"
    info = msgspec.json.decode(path.read_bytes(), type=VariantInfo)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(info, **change)))
    with pytest.raises(EngineMismatch) as caught:
        variants.active(made_up_store, made_up)
    assert f"the calibrated made-up {folder.name} differs in {field}" in str(caught.value)
    assert caught.value.fix == AGAIN
    with pytest.raises(EngineMismatch):
        variants.promote(made_up_store, "made-up", folder.name)


@pytest.mark.parametrize("source", ["_exporter", "_quantiser"])
def test_a_changed_exporter_or_quantiser_refuses_what_was_calibrated_before(
    calibrated, made_up, made_up_store, monkeypatch, source
) -> None:
    calibrated()
    full = made_up_store.fingerprint(made_up, "fp32")
    monkeypatch.setattr(store, source, lambda: "another")
    with pytest.raises(EngineMismatch, match="differs in graphs"):
        variants.active(made_up_store, made_up)
    # Graphs in floating point do not depend on the quantiser.
    assert (made_up_store.fingerprint(made_up, "fp32") == full) == (source == "_quantiser")


def test_all_that_decides_the_graphs_is_in_their_fingerprint() -> None:
    """Whatever of `calibrate` the writer imports."""
    folder = Path(store.__file__).parent / "calibrate"
    found, due = set(), {"write"}
    while due:
        name = due.pop()
        found.add(name)
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            module = getattr(node, "module", None) or ""
            if module == "edge_runtime.engines.calibrate":
                due |= {alias.name for alias in node.names} - found
            elif module.startswith("edge_runtime.engines.calibrate."):
                due |= {module.rsplit(".", 1)[1]} - found
    assert found == set(store._QUANTISER)


@pytest.mark.parametrize("name", ["encoder.onnx", "calibration.json", "manifest.json"])
def test_one_that_is_not_whole_is_refused(calibrated, made_up, made_up_store, name) -> None:
    folder = calibrated()
    (folder / name).unlink()
    with pytest.raises((ModelDamaged, ModelMissing)) as caught:
        variants.active(made_up_store, made_up)
    assert caught.value.fix == AGAIN


def test_it_is_neither_graphs_nor_an_engine_to_others(
    calibrated, made_up, made_up_store, made_up_scheme
) -> None:
    folder, beside = calibrated(), calibrated(made_up_scheme, candidate=True)
    made_up_store.forget_graphs("made-up")
    assert folder.is_dir()
    assert beside.is_dir()
    assert list(engines(made_up_store)) == []
    assert variants.active(made_up_store, made_up) is not None
    with pytest.raises(ConfigError, match="--variant is given, and the precision is fp16"):
        BuildOptions(variant="ab")


def test_it_serves_without_the_weights(calibrated, made_up, made_up_store) -> None:
    calibrated()
    (made_up_store.root / "made-up" / "weights" / "manifest.json").unlink()
    assert variants.active(made_up_store, made_up) is not None

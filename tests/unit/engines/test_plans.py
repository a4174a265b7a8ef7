"""Which engine serves: every field that must match, damage, and the command that helps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from edge_runtime.engines import plans
from edge_runtime.engines.board import Board
from edge_runtime.engines.engine import PORTABLE, Engine, EngineInfo, covers, engines, read
from edge_runtime.engines.plans import Wanted, find, unlike_here, warnings
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import ENGINE
from edge_runtime.errors import DeviceError, EngineMismatch, ModelDamaged, ModelMissing

WANTED = Wanted("fp16", "tensorrt", "10.3.0", (8, 7), rows=4, samples=200_000, queries=16)


@pytest.fixture
def info(made_up, made_up_store) -> EngineInfo:
    return EngineInfo(
        model=made_up.name,
        recipe=made_up.hash,
        weights=made_up_store.hashes(made_up),
        graphs=made_up_store.fingerprint(made_up, "fp16"),
        precision="fp16",
        split=made_up.decoder_tiles,
        tensorrt="tensorrt",
        version="10.3.0",
        target=("8.7",),
        rows=12,
        samples=278_400,
        queries=16,
        gpu="Orin",
        l4t="36.4.3",
        driver="540.4.0",
        built="2026-01-01T00:00:00+00:00",
    )


@pytest.fixture
def put(made_up, made_up_store):
    """Puts an engine, as a builder would, but its plan."""

    def put(info: EngineInfo) -> Path:
        place = made_up_store.root / info.model / info.fingerprint
        with made_up_store.lock(info.model), made_up_store.replacing(place, "a test") as new:
            (new / "encoder.plan").write_bytes(b"plan")
            (new / "recipe.json").write_bytes(msgspec.json.encode(made_up))
            (new / ENGINE).write_bytes(msgspec.json.encode(info))
        return place

    return put


def test_what_was_built_is_found(made_up, made_up_store, info, put) -> None:
    folder = put(info)
    assert find(made_up_store, made_up, WANTED) == Engine(folder, info)
    assert find(made_up_store, made_up, replace(WANTED, capability=None)).folder == folder


@pytest.mark.parametrize("field", EngineInfo.__struct_fields__)
def test_the_fingerprint_is_of_what_must_match(info, field) -> None:
    old = getattr(info, field)
    kinds = {
        str: "other", int: 99, float: 9.5, bool: True, tuple: (6,), dict: {"a": "b"},
    }  # fmt: skip
    other = msgspec.structs.replace(info, **{field: kinds[type(old)]})
    told = {
        "gpu", "l4t", "driver", "variant", "forced", "settings", "built", "seconds", "host",
        "workspace_mb",
    }  # fmt: skip
    assert (other.fingerprint == info.fingerprint) == (field in told)


def test_where_none_was_built_the_command_is_named(made_up, made_up_store) -> None:
    with pytest.raises(ModelMissing) as caught:
        find(made_up_store, made_up, replace(WANTED, split=(3,), rows=20, samples=480_001))
    assert "no engine of made-up was ever built" in caught.value.message
    assert caught.value.fix == (
        "Run: edge-runtime build made-up --precision fp16 --tensorrt tensorrt --split 3 --rows 20 "
        "--seconds 31"
    )


BUILD = "Run: edge-runtime build made-up --precision fp16 --tensorrt tensorrt"


@pytest.mark.parametrize(
    ("was", "said", "fix"),
    [
        ({"recipe": "0" * 64}, "recipe (wanted ", BUILD),
        (
            {"weights": {"model.safetensors": "1" * 64}},
            "weights (wanted model.safetensors ",
            BUILD,
        ),
        ({"graphs": "0" * 16}, "graphs (exported by another version of edge-runtime)", BUILD),
        ({"precision": "fp32"}, "precision (wanted fp16, found fp32)", BUILD),
        ({"tensorrt": "tensorrt_rtx"}, "tensorrt (wanted tensorrt, found tensorrt_rtx)", BUILD),
        ({"version": "10.3.0.26"}, "version (wanted 10.3.0, found 10.3.0.26)", BUILD),
        ({"target": ("8.6",)}, "target (wanted 8.7, found 8.6)", BUILD),
        ({"rows": 3}, "rows (wanted 4, found 3)", f"{BUILD} --rows 4"),
        ({"samples": 199_999}, "samples (wanted 200000, found 199999)", BUILD),
        (
            {"samples": 300_000, "rows": 1},
            "rows (wanted 4, found 1)",
            f"{BUILD} --rows 4 --seconds 19",
        ),
        ({"queries": 15}, "queries (wanted 16, found 15)", BUILD),
        ({"split": (4,)}, "recipe (wanted another number", f"{BUILD} --split 4"),
    ],
)
def test_a_mismatch_names_field_and_command(
    made_up, made_up_store, info, put, was, said, fix
) -> None:
    put(msgspec.structs.replace(info, **was))
    with pytest.raises(EngineMismatch) as caught:
        find(made_up_store, made_up, WANTED)
    assert isinstance(caught.value, DeviceError)
    assert caught.value.code == "engine_mismatch"
    assert f" of made-up differs in {said}" in caught.value.message
    assert caught.value.fix == fix


def test_only_the_field_that_differs_is_named(made_up, made_up_store, info, put) -> None:
    put(msgspec.structs.replace(info, precision="fp32", graphs="0" * 16))
    with pytest.raises(EngineMismatch, match=r"differs in precision \(wanted fp16, found fp32\)\."):
        find(made_up_store, made_up, WANTED)


def test_the_nearest_engine_is_told_of(made_up, made_up_store, info, put) -> None:
    put(msgspec.structs.replace(info, version="8.6", precision="fp32", target=("7.2",)))
    near = put(msgspec.structs.replace(info, version="10.4.0"))
    with pytest.raises(EngineMismatch) as caught:
        find(made_up_store, made_up, WANTED)
    assert near.name in caught.value.message
    assert "version (wanted 10.3.0, found 10.4.0)" in caught.value.message


def test_any_split_serves_unless_one_is_asked_for(made_up, made_up_store, info, put) -> None:
    cut = plans.split(made_up, (3,))
    whole = msgspec.structs.replace(
        info,
        split=(3,),
        recipe=cut.hash,
        graphs=made_up_store.fingerprint(cut, "fp16"),
        built="2026-02-01T00:00:00+00:00",
    )
    put(info)
    put(whole)
    assert find(made_up_store, made_up, WANTED).info.split == (3,)  # the newer one
    assert find(made_up_store, made_up, replace(WANTED, split=(1, 2))).info.split == (1, 2)
    with pytest.raises(EngineMismatch, match=r"split \(wanted 2,1, found"):
        find(made_up_store, made_up, replace(WANTED, split=(2, 1)))


def test_a_damaged_engine_is_passed_over_and_never_loaded(
    made_up, made_up_store, info, put
) -> None:
    older = put(msgspec.structs.replace(info, rows=8))
    newer = put(msgspec.structs.replace(info, built="2026-02-01T00:00:00+00:00"))
    assert find(made_up_store, made_up, WANTED).folder == newer
    (newer / "encoder.plan").write_bytes(b"pla")
    assert find(made_up_store, made_up, WANTED).folder == older
    (older / "manifest.json").unlink()
    with pytest.raises(ModelDamaged) as caught:
        find(made_up_store, made_up, WANTED)
    assert caught.value.fix == f"{BUILD} --again"


def test_an_engine_that_cannot_tell_what_it_is_is_none(made_up, made_up_store, info, put) -> None:
    folder = put(info)
    (folder / ENGINE).write_text('{"model": "made-up"}')
    with pytest.raises(ModelMissing):
        find(made_up_store, made_up, WANTED)
    with pytest.raises(ModelDamaged, match=r"engine\.json"):
        read(folder)
    half = made_up_store.root / "made-up" / ".new-x"
    half.mkdir()
    (half / ENGINE).write_bytes(msgspec.json.encode(info))
    assert list(engines(made_up_store)) == []


def test_an_engine_without_the_weights_is_compared_with_itself(
    made_up, made_up_store, info, put
) -> None:
    folder = put(info)
    (made_up_store.root / "made-up" / "weights" / "manifest.json").unlink()
    assert find(made_up_store, made_up, WANTED).folder == folder


def test_here_is_what_the_board_and_the_library_say(
    made_up_store, info, put, monkeypatch, needs_rtx
) -> None:
    rtx = plans.find_tensorrt("tensorrt_rtx").version
    here = Board((8, 7), "Orin", "", "", 0, "board")
    put(info)
    (engine,) = engines(made_up_store)
    assert unlike_here(made_up_store, engine, here) == []
    assert unlike_here(made_up_store, engine, replace(here, capability=None)) == []
    (why,) = unlike_here(made_up_store, engine, replace(here, capability=(11, 0)))
    assert str(why) == "target (wanted 11.0, found 8.7)"
    other = replace(engine, info=msgspec.structs.replace(info, tensorrt="tensorrt_rtx"))
    (why,) = unlike_here(made_up_store, other, here)
    assert str(why) == f"version (wanted {rtx}, found 10.3.0)"


def test_a_model_that_comes_with_the_program_is_as_its_recipe_says(
    made_up, made_up_store, info, put
) -> None:
    put(msgspec.structs.replace(info, model="moonshine-tiny-en"))
    (engine,) = engines(made_up_store, "moonshine-tiny-en")
    unlike = unlike_here(made_up_store, engine, Board(None, "", "", "", 0, ""))
    assert "recipe" in [each.field for each in unlike]
    assert load_recipe("moonshine-tiny-en").hash != made_up.hash


def test_what_need_not_match_is_warned_about(info) -> None:
    same = Board((8, 7), "Orin", "36.4.3", "540.4.0", 0, "another name")
    assert warnings(info, same) == []
    assert warnings(info, replace(same, gpu="", l4t="", driver="")) == []
    assert warnings(info, replace(same, l4t="36.4.4", driver="540.5.0")) == [
        "the engine was built with L4T 36.4.3, this is 36.4.4",
        "the engine was built with driver 540.4.0, this is 540.5.0",
    ]


@pytest.mark.parametrize(
    ("target", "inside", "outside"),
    [
        ("8.7", [(8, 7)], [(8, 6), (8, 9), (9, 0)]),
        (PORTABLE, [(8, 0), (8, 7), (9, 0), (12, 0), (12, 1)], [(7, 5), (13, 0)]),
        ("10.x", [(10, 0), (10, 3)], [(9, 0), (11, 0)]),
    ],
)
def test_targets(target, inside, outside) -> None:
    assert all(covers(target, each) for each in inside)
    assert not any(covers(target, each) for each in outside)

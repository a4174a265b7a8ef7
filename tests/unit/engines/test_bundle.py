"""Engines travel in a tar: whole, the same every time, and nothing else comes in."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from edge_runtime.engines import bundle
from edge_runtime.engines.board import Board
from edge_runtime.engines.build import BuildOptions, build
from edge_runtime.engines.engine import Engine, engines, read
from edge_runtime.engines.store import Store
from edge_runtime.errors import EngineMismatch, ModelDamaged, StoreUnwritable

pytestmark = pytest.mark.usefixtures("needs_rtx")

HERE = Board((8, 7), "Orin", "", "", 1 << 32, "board")


@pytest.fixture(scope="module")
def built(made_up, made_up_kept, tmp_path_factory) -> Engine:
    """Built once; its store has nothing else to do."""
    store = Store(shutil.copytree(made_up_kept, tmp_path_factory.mktemp("built") / "store"))
    options = BuildOptions(tensorrt="tensorrt_rtx", rows=1, samples=16_000)
    folder = build(made_up, store, options)
    (folder / "encoder.plan.cache").write_bytes(b"kernels")
    return read(folder)


@pytest.fixture
def engine(built, tmp_path) -> Engine:
    return read(shutil.copytree(built.folder, tmp_path / "engine"))


@pytest.fixture
def tar(engine, tmp_path) -> Path:
    bundle.export(engine, tmp_path / "x.tar")
    return tmp_path / "x.tar"


@pytest.fixture
def bare(tmp_path) -> Store:
    """A store that has nothing."""
    return Store(tmp_path / "bare")


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {each.name: tar.extractfile(each).read() for each in tar}


def rewritten(path: Path, change) -> Path:
    """The tar with other members: `change` gets and gives (TarInfo, content) of each."""
    pairs = []
    with tarfile.open(path) as tar:
        for each in tar:
            pairs += change(each, tar.extractfile(each).read())
    with tarfile.open(path, "w") as tar:
        for member, content in pairs:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_a_bare_board_gets_all_that_was_sent(engine, tar, bare) -> None:
    brought, came = bundle.bring(bare, tar, HERE)
    assert came
    assert brought.info == engine.info
    assert brought.folder == bare.root / "made-up" / engine.info.fingerprint
    brought.check(verify=True)
    for path in engine.folder.iterdir():
        assert (brought.folder / path.name).read_bytes() == path.read_bytes(), path.name
    assert {path.name for path in bare.root.rglob("*") if path.is_dir()} == {
        "made-up", engine.info.fingerprint,
    }  # fmt: skip
    assert bundle.bring(bare, tar, HERE) == (brought, False)


def test_a_damaged_one_that_is_there_is_replaced(tar, bare) -> None:
    brought, _ = bundle.bring(bare, tar, HERE)
    (brought.folder / "table.npy").write_bytes(b"")
    assert bundle.bring(bare, tar, HERE)[1]
    brought.check(verify=True)


def test_the_same_files_give_the_same_tar(engine, tar, tmp_path) -> None:
    for path in engine.folder.iterdir():
        path.touch()
    size = bundle.export(engine, tmp_path / "y.tar")
    assert (tmp_path / "y.tar").read_bytes() == tar.read_bytes()
    assert size == tar.stat().st_size
    assert tar.stat().st_mode & 0o777 == 0o644
    with tarfile.open(tar) as opened:
        for member in opened:
            assert (member.mtime, member.uid, member.gid, member.uname) == (0, 0, 0, "")
    names = list(members(tar))
    assert names[0].endswith("/manifest.json")
    assert names[1:] == sorted(names[1:])


def test_an_engine_that_was_changed_is_not_sent(engine, tmp_path) -> None:
    plan = engine.folder / "encoder.plan"
    plan.write_bytes(b"\0" * plan.stat().st_size)
    with pytest.raises(ModelDamaged, match=r"encoder\.plan was changed"):
        bundle.export(engine, tmp_path / "x.tar")
    assert not list(tmp_path.glob("*x.tar*"))


def test_where_the_tar_cannot_be_written(engine, tmp_path) -> None:
    with pytest.raises(StoreUnwritable, match="No such file or directory"):
        bundle.export(engine, tmp_path / "missing" / "x.tar")


def nothing_came(store: Store) -> bool:
    return not any(path.is_file() for path in store.root.rglob("[!.]*"))


@pytest.mark.parametrize("name", ["encoder.plan", "encoder.plan.cache", "table.npy"])
def test_a_file_that_was_changed_is_refused(tar, bare, name) -> None:
    def change(member, content):
        changed = member.name.endswith(f"/{name}")
        return [(member, content[:-1] + b"~" if changed else content)]

    rewritten(tar, change)
    with pytest.raises(ModelDamaged, match=f"sha256 of {name} differs"):
        bundle.bring(bare, tar, HERE)
    assert nothing_came(bare)


@pytest.mark.parametrize(
    "name",
    [
        "../../escaped", "/tmp/escaped", "made-up/../escaped/x", "made-up/0123456789abcdef/../x",
        "made-up/0123456789abcdef/a/b", "made-up/0123456789abcdef/.hidden",
        "made-up/0123456789abcdef/a b", ".x/0123456789abcdef/a", "made-up/0123456789abcdeg/a",
    ],
)  # fmt: skip
def test_a_name_that_reaches_out_is_refused(tar, bare, name, tmp_path) -> None:
    before = {path for path in tmp_path.rglob("*") if bare.root not in path.parents}
    rewritten(tar, lambda member, content: [(member, content)])
    with tarfile.open(tar, "a") as opened:
        opened.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(ModelDamaged, match="which no engine has"):
        bundle.bring(bare, tar, HERE)
    assert {path for path in tmp_path.rglob("*") if bare.root not in path.parents} == before
    assert nothing_came(bare)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE,
                                  tarfile.CHRTYPE, tarfile.FIFOTYPE])  # fmt: skip
def test_only_plain_files_come_in(engine, tar, bare, kind) -> None:
    link = tarfile.TarInfo(f"made-up/{engine.info.fingerprint}/encoder.plan")
    link.type, link.linkname = kind, "/etc/passwd"
    with tarfile.open(tar, "a") as opened:
        opened.addfile(link)
    with pytest.raises(ModelDamaged, match="which no engine has"):
        bundle.bring(bare, tar, HERE)
    assert nothing_came(bare)


def test_a_file_twice_a_file_more_a_file_less_two_engines(engine, tar, bare, tmp_path) -> None:
    prefix = f"made-up/{engine.info.fingerprint}"
    whole = tar.read_bytes()
    for extra, said in [
        (f"{prefix}/table.npy", "holds table.npy twice"),
        (f"{prefix}/more.plan", "does not hold the files that its manifest names"),
        ("made-up/0123456789abcdef/a", "holds 2 engines, not one"),
    ]:
        tar.write_bytes(whole)
        with tarfile.open(tar, "a") as opened:
            opened.addfile(tarfile.TarInfo(extra), io.BytesIO())
        with pytest.raises(ModelDamaged, match=said):
            bundle.bring(bare, tar, HERE)
    tar.write_bytes(whole)
    rewritten(tar, lambda m, c: [] if m.name.endswith("table.npy") else [(m, c)])
    with pytest.raises(ModelDamaged, match="does not hold the files"):
        bundle.bring(bare, tar, HERE)
    for record in ("manifest.json", "engine.json"):
        tar.write_bytes(whole)
        rewritten(tar, lambda m, c, r=record: [] if m.name.endswith(r) else [(m, c)])
        with pytest.raises(ModelDamaged, match=f"has no {record}"):
            bundle.bring(bare, tar, HERE)
        tar.write_bytes(whole)
        rewritten(tar, lambda m, c, r=record: [(m, b"{" if m.name.endswith(r) else c)])
        with pytest.raises(ModelDamaged, match=f"has a {record} that cannot be read"):
            bundle.bring(bare, tar, HERE)
    assert nothing_came(bare)


def forged(tar: Path, name: str, content: bytes) -> Path:
    """The tar with another content of one file, and a manifest that agrees."""

    def change(member, old):
        if member.name.endswith(f"/{name}"):
            return [(member, content)]
        if member.name.endswith("/manifest.json"):
            manifest = msgspec.json.decode(old)
            for file in manifest["files"]:
                if file["name"] == name:
                    file["size"] = len(content)
                    file["sha256"] = hashlib.sha256(content).hexdigest()
            return [(member, msgspec.json.encode(manifest))]
        return [(member, old)]

    return rewritten(tar, change)


def test_an_engine_that_is_not_the_folder_s(engine, tar, bare) -> None:
    other = msgspec.structs.replace(engine.info, target=("8.7",))
    forged(tar, "engine.json", msgspec.json.encode(other))
    with pytest.raises(ModelDamaged, match=r"engine\.json of another engine"):
        bundle.bring(bare, tar, HERE)


def test_a_recipe_that_is_not_the_engine_s(engine, tar, bare) -> None:
    other = msgspec.structs.replace(engine.recipe(), decoder_tiles=(3,))
    forged(tar, "recipe.json", msgspec.json.encode(other))
    with pytest.raises(ModelDamaged, match=r"recipe\.json of another engine"):
        bundle.bring(bare, tar, HERE)
    forged(tar, "recipe.json", b"[]")
    with pytest.raises(ModelDamaged, match=r"recipe\.json"):
        bundle.bring(bare, tar, HERE)
    assert nothing_came(bare)


def test_another_gpu_is_refused_with_the_reason(tar, bare) -> None:
    with pytest.raises(EngineMismatch) as caught:
        bundle.bring(bare, tar, replace(HERE, capability=(7, 5)))
    assert "target (wanted 7.5, found 8.0-12.x)" in caught.value.message
    assert nothing_came(bare)
    assert bundle.bring(bare, tar, replace(HERE, capability=None))[1]  # nothing tells


def test_another_version_is_refused_with_the_reason(tar, bare, monkeypatch) -> None:
    other = replace(bundle_library(), version="1.8.0.1")
    monkeypatch.setattr("edge_runtime.engines.plans.find_tensorrt", lambda _: other)
    with pytest.raises(EngineMismatch, match=r"version \(wanted 1\.8\.0\.1, found 1\.7"):
        bundle.bring(bare, tar, HERE)
    assert list(engines(bare)) == []


def bundle_library():
    from edge_runtime.device.tensorrt.module import find_tensorrt

    return find_tensorrt("tensorrt_rtx")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no whole tar"),
        (b"no tar at all" * 100, "no whole tar"),
        (None, "no whole tar"),
    ],
)
def test_what_is_no_tar(tar, bare, content, said) -> None:
    tar.write_bytes(tar.read_bytes()[:50_000] if content is None else content)
    with pytest.raises(ModelDamaged, match=said):
        bundle.bring(bare, tar, HERE)
    assert nothing_came(bare)


def test_a_file_that_is_not_there(bare, tmp_path) -> None:
    with pytest.raises(ModelDamaged, match="cannot be read: No such file"):
        bundle.bring(bare, tmp_path / "x.tar", HERE)

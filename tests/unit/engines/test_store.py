"""The store: folders appear whole or not at all, whoever else writes, dies or is refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from edge_runtime.engines import manifest
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store, default_root
from edge_runtime.errors import ModelDamaged, ModelMissing, StoreUnwritable


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def filled(store, recipe, published) -> Store:
    put(store, recipe, published)
    return store


def put(store, recipe, published) -> None:
    with (
        store.lock(recipe.name),
        store.replacing(store.root / recipe.name / "weights", "a test") as new,
    ):
        shutil.copy(published, new)


def leftovers(store, recipe) -> list[str]:
    return [path.name for path in (store.root / recipe.name).glob(".*")]


def test_gives_back_what_was_put(filled, recipe, published):
    folder = filled.weights(recipe, verify=True)
    assert (folder / published.name).read_bytes() == published.read_bytes()
    said = json.loads((folder / manifest.FILE).read_text())
    assert said["source"] == "a test"
    assert [file["name"] for file in said["files"]] == [published.name]
    assert folder.stat().st_mode & 0o777 == 0o755
    assert leftovers(filled, recipe) == []


def test_an_empty_store_names_the_command(store, recipe):
    with pytest.raises(ModelMissing, match="Run: edge-runtime pull silero-vad"):
        store.weights(recipe)
    with pytest.raises(ModelMissing):
        store.graphs(recipe)
    assert not store.root.exists()


@pytest.mark.parametrize(
    ("harm", "verify", "said"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), False, "bytes, not"),
        (lambda path: path.unlink(), False, "is gone"),
        (lambda path: path.write_bytes(b"\0" * path.stat().st_size), True, "sha256 differs"),
        (lambda path: (path.parent / manifest.FILE).write_text("{"), False, "manifest.json"),
        (lambda path: (path.parent / manifest.FILE).write_text("[]"), False, "manifest.json"),
    ],
)
def test_damage_is_found_and_names_file_and_command(filled, recipe, published, harm, verify, said):
    harm(filled.weights(recipe) / published.name)
    with pytest.raises(ModelDamaged, match="pull silero-vad --again") as caught:
        filled.weights(recipe, verify=verify)
    assert said in caught.value.message


def test_graphs_are_made_once_and_found_again(filled, recipe):
    told = []
    folder = filled.graphs(recipe, progress=lambda *step: told.append(step))
    assert (folder / "vad.onnx").stat().st_size > 1_000_000
    assert told
    before = (folder / "vad.onnx").stat().st_mtime_ns
    told.clear()
    assert filled.graphs(recipe, progress=lambda *step: told.append(step)) == folder
    assert (folder / "vad.onnx").stat().st_mtime_ns == before
    assert told == []


def test_damaged_graphs_are_made_again(filled, recipe, caplog):
    folder = filled.graphs(recipe)
    whole = (folder / "vad.onnx").read_bytes()
    (folder / "vad.onnx").write_bytes(whole[:1000])
    assert filled.graphs(recipe) == folder
    assert (folder / "vad.onnx").read_bytes() == whole
    assert "exporting again" in caplog.text


def test_the_fingerprint_follows_recipe_weights_and_precision(filled, recipe, published, tmp_path):
    first = filled.fingerprint(recipe, "fp32")
    assert filled.fingerprint(recipe, "fp32") == first
    assert filled.fingerprint(recipe, "fp16") != first
    shape = msgspec.structs.replace(recipe.architecture, context=32)
    assert filled.fingerprint(msgspec.structs.replace(recipe, architecture=shape), "fp32") != first
    other = tmp_path / published.name
    other.write_bytes(published.read_bytes() + b"\0")
    put(filled, recipe, other)
    assert filled.fingerprint(recipe, "fp32") != first


def test_a_writer_that_fails_leaves_the_old_folder(filled, recipe, published):
    def write_half() -> None:
        with filled.replacing(filled.root / recipe.name / "weights", "worse") as new:
            (new / "half").write_bytes(b"x")
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        write_half()
    assert (filled.weights(recipe, verify=True) / published.name).is_file()
    assert leftovers(filled, recipe) == []


def test_a_killed_writer_is_swept_up_and_its_half_never_loaded(filled, recipe, published):
    code = (
        "import os, sys\n"
        "from edge_runtime.engines.store import Store\n"
        "store, place = Store(sys.argv[1]), sys.argv[2]\n"
        "with store.lock('silero-vad'), store.replacing(store.root / place, 'x') as new:\n"
        "    (new / 'half').write_bytes(b'x')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    arguments = [sys.executable, "-c", code, str(filled.root), "silero-vad/weights"]
    assert subprocess.run(arguments, check=False).returncode == -9
    assert any(name.startswith(".new-") for name in leftovers(filled, recipe))
    assert (filled.weights(recipe, verify=True) / published.name).is_file()
    put(filled, recipe, published)  # the lock died with its holder
    assert leftovers(filled, recipe) == []


def test_one_killed_between_its_renames_loses_nothing(filled, recipe, published):
    weights = filled.weights(recipe)
    weights.rename(weights.with_name(".old-weights"))
    with pytest.raises(RuntimeError), filled.replacing(weights, "again"):
        raise RuntimeError
    assert (filled.weights(recipe, verify=True) / published.name).is_file()


def test_writers_at_once_make_the_graphs_once(filled, recipe, tmp_path):
    toml = tmp_path / "recipe.json"
    toml.write_bytes(msgspec.json.encode(recipe))
    code = (
        "import logging, sys, msgspec\n"
        "from pathlib import Path\n"
        "from edge_runtime.engines.recipe import SileroRecipe\n"
        "from edge_runtime.engines.store import Store\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "recipe = msgspec.json.decode(Path(sys.argv[2]).read_bytes(), type=SileroRecipe)\n"
        "sys.stdout.write(str(Store(sys.argv[1]).graphs(recipe)))\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(filled.root), str(toml)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    said = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [0] * 4, said
    assert {out for out, _ in said} == {str(filled.graphs(recipe))}
    assert sum("exporting silero-vad" in log for _, log in said) == 1
    assert leftovers(filled, recipe) == []


def test_a_reader_never_sees_half(store, recipe, published):
    seen, done = [], threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                seen.append(store.weights(recipe, verify=True))
            except ModelMissing:
                continue
            except ModelDamaged as error:
                seen.append(error)
                return

    reader = threading.Thread(target=read)
    reader.start()
    try:
        put(store, recipe, published)
        while len(seen) < 3 and reader.is_alive():
            done.wait(0.01)
    finally:
        done.set()
        reader.join()
    assert set(seen) == {store.root / recipe.name / "weights"}


def test_a_file_in_the_place_of_the_folder_is_said(tmp_path, recipe):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file")
    with pytest.raises(StoreUnwritable, match="EDGE_RUNTIME_STORE"), store.lock(recipe.name):
        pass
    with pytest.raises(ModelMissing):
        store.weights(recipe)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission_is_said(filled, recipe):
    folder = filled.root / recipe.name
    folder.chmod(0o555)
    try:
        with pytest.raises(StoreUnwritable, match="Permission denied"):
            filled.graphs(recipe)
    finally:
        folder.chmod(0o755)


@pytest.mark.parametrize(
    ("code", "said"),
    [(errno.EACCES, "cannot be written: Permission denied"), (errno.EROFS, "Read-only")],
)
def test_what_the_system_refuses_becomes_one_error(filled, recipe, code, said):
    with (
        pytest.raises(StoreUnwritable, match=said),
        filled.replacing(filled.root / recipe.name / "weights", "x"),
    ):
        raise OSError(code, os.strerror(code))
    with (
        pytest.raises(FileNotFoundError),
        filled.replacing(filled.root / recipe.name / "weights", "x"),
    ):
        raise FileNotFoundError(errno.ENOENT, "an input of the writer, no fault of the store")


def test_a_full_disk_is_said_and_leaves_no_half(filled, recipe):
    # A limit on the size of a file is the one full disk that needs no privilege.
    code = (
        "import resource, sys\n"
        "from edge_runtime.engines.store import Store\n"
        "from edge_runtime.errors import StoreUnwritable\n"
        "store = Store(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    with store.replacing(store.root / 'silero-vad' / 'weights', 'x') as new:\n"
        "        (new / 'much').write_bytes(bytes(5000))\n"
        "except StoreUnwritable as error:\n"
        "    sys.stdout.write(str(error))\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(filled.root)], capture_output=True, text=True, check=True
    ).stdout
    assert said.startswith("no space left")
    assert "Free space" in said
    filled.weights(recipe, verify=True)
    assert leftovers(filled, recipe) == []


def test_listing_tells_the_state_of_each(store, published):
    real = load_recipe("silero-vad")
    states = {stored.recipe.name: stored.state for stored in store.listing()}
    assert {"moonshine-tiny-en", "silero-vad"} <= states.keys()
    assert set(states.values()) == {"absent"}
    put(store, real, published)
    assert detector(store).state == "no graphs"
    assert detector(store).weights.size == published.stat().st_size
    graphs = store.graphs(real)
    assert detector(store).state == "ready"
    assert detector(store).graphs == (graphs.name,)
    (store.weights(real) / published.name).unlink()
    assert detector(store).state == "damaged"


def detector(store):
    return next(stored for stored in store.listing() if stored.recipe.name == "silero-vad")


def test_forgets_graphs_but_those_to_keep(filled, recipe):
    old, new = filled.graphs(recipe, "fp16"), filled.graphs(recipe)
    filled.forget_graphs(recipe.name, keep=[new.name])
    assert not old.exists()
    assert new.is_dir()
    filled.forget_graphs(recipe.name)
    assert not new.exists()
    assert filled.weights(recipe).is_dir()


def test_the_root_is_what_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(tmp_path / "here"))
    assert default_root() == tmp_path / "here"
    assert Store().root == tmp_path / "here"
    monkeypatch.delenv("EDGE_RUNTIME_STORE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    shared = Path("/var/lib/edge-runtime")
    writable = shared.is_dir() and os.access(shared, os.W_OK)
    assert default_root() == (shared if writable else tmp_path / "edge-runtime")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_root() == (shared if writable else tmp_path / ".cache" / "edge-runtime")

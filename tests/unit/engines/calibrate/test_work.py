"""What is kept of a calibration: whole steps, found again by the same input alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from edge_runtime.engines.calibrate.work import EVERY, Work
from edge_runtime.engines.store import Store


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def work(store) -> Work:
    return Work(store, "model", [b"audio", b"options"])


def test_the_same_input_goes_on_and_another_begins_anew(store, work) -> None:
    assert not work.continued
    assert work.kept("a.json", int, lambda: 7) == 7
    again = Work(store, "model", [b"audio", b"options"])
    assert again.continued
    assert again.kept("a.json", int, lambda: 8) == 7
    assert not Work(store, "model", [b"audio", b"other options"]).continued
    assert not Work(store, "model", [b"audioo", b"ptions"]).continued


def test_items_are_kept_every_few(store, work) -> None:
    wanted = [f"item {number}" for number in range(2 * EVERY + 3)]
    made, told = [], []

    def make(name):
        if len(made) == EVERY + 2:
            raise KeyboardInterrupt
        made.append(name)
        return len(name)

    with pytest.raises(KeyboardInterrupt):
        work.each("many.json", int, wanted, make)
    made.clear()
    found = Work(store, "model", [b"audio", b"options"]).each(
        "many.json", int, wanted, lambda name: made.append(name) or len(name), told.append
    )
    assert made == wanted[EVERY:]
    assert list(found) == wanted
    assert found["item 7"] == 6
    assert told == list(range(1, len(wanted) + 1))


def test_arrays_come_back_in_their_order(work) -> None:
    made = {"z z": np.arange(3), "a/b": np.zeros((2, 2), np.float32)}
    for make in (lambda: made, lambda: pytest.fail("made again")):
        found = work.arrays("arrays.npz", make)
        assert list(found) == ["z z", "a/b"]
        np.testing.assert_array_equal(found["z z"], [0, 1, 2])
        assert found["a/b"].dtype == np.float32


def test_a_folder_is_there_whole_or_not_at_all(work) -> None:
    def half(folder) -> None:
        (folder / "one").write_text("1")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work.fill("graphs", half)
    assert not work.has("graphs")
    made = work.fill("graphs", lambda folder: (folder / "two").write_text("2"))
    assert [path.name for path in made.iterdir()] == ["two"]
    assert work.fill("graphs", lambda folder: pytest.fail("made again")) == made


def test_the_end_takes_all_that_was_given_up_as_well(store, work) -> None:
    Work(store, "model", [b"given up"])
    (store.root / "model" / "weights").mkdir()
    work.clear()
    assert [path.name for path in (store.root / "model").iterdir()] == ["weights"]


def test_a_full_disk_is_said_and_leaves_no_half(work) -> None:
    code = (
        "import resource, sys\n"
        "from edge_runtime.engines.calibrate.work import Work\n"
        "from edge_runtime.engines.store import Store\n"
        "from edge_runtime.errors import StoreUnwritable\n"
        "work = Work(Store(sys.argv[1]), 'model', [b'audio', b'options'])\n"
        "work.kept('before.json', int, lambda: 1)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    work.kept('much.json', str, lambda: 'x' * 5000)\n"
        "except StoreUnwritable as error:\n"
        "    sys.stdout.write(str(error))\n"
    )
    line = [sys.executable, "-c", code, str(work.folder.parents[1])]
    said = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert said.startswith("no space left")
    assert work.has("before.json")
    assert not work.has("much.json")

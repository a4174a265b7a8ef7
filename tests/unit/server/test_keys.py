"""API keys in a file: shown once, kept as hashes, changed by several processes, read anew."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigError, StoreUnwritable
from edge_runtime.server import keys as module
from edge_runtime.server.keys import Keys, default_path


@pytest.fixture
def keys(tmp_path):
    return Keys(tmp_path / "state" / "keys.json")


def test_a_key_is_found_by_what_was_shown(keys):
    shown = keys.add("phone")
    other = keys.add("kiosk-2")
    assert shown != other
    assert len(shown) >= 43  # 256 bits in base64, and how it begins
    assert [key.name for key in keys.all()] == ["phone", "kiosk-2"]
    assert keys.find(shown).name == "phone"
    assert keys.find(other).name == "kiosk-2"
    for wrong in ("", shown[:-1], shown + "x", shown.upper(), keys.all()[0].sha256, "ключ\udcff"):
        assert keys.find(wrong) is None


def test_the_file_has_the_hash_alone_and_is_its_owners(keys):
    shown = keys.add("phone")
    text = keys.path.read_text()
    assert shown not in text
    assert shown.removeprefix("er_") not in text
    (kept,) = json.loads(text)["keys"]
    assert kept["sha256"] == hashlib.sha256(shown.encode()).hexdigest()
    age = datetime.now(timezone.utc) - datetime.fromisoformat(kept["created"])
    assert timedelta() <= age + timedelta(seconds=1) < timedelta(minutes=1)
    assert keys.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in keys.path.parent.iterdir()] == ["keys.json"]


def test_every_key_is_compared_whichever_it_is(keys, monkeypatch):
    """The time of a look-up depends on how many there are, not on what was shown."""
    shown = [keys.add(f"k{number}") for number in range(5)]
    compared = []

    def compare(one, other):
        compared.append((one, other))
        return real(one, other)

    keys.all()
    real = hmac.compare_digest
    monkeypatch.setattr(module.hmac, "compare_digest", compare)
    for each in (*shown, "er_nonsense"):
        compared.clear()
        keys.find(each)
        assert [one for one, _ in compared] == [key.sha256 for key in keys.all()]
        assert all(len(one) == len(other) == 64 for one, other in compared)


def test_what_another_process_changes_is_seen_at_once(keys):
    other = Keys(keys.path)
    assert other.all() == ()
    shown = keys.add("phone")
    assert [key.name for key in other.all()] == ["phone"]
    assert other.find(shown) is not None
    keys.remove("phone")
    assert other.all() == ()
    assert other.find(shown) is None
    again = keys.add("phone")
    other.all()
    assert other.find(again) is not None
    assert other.find(shown) is None
    keys.path.unlink()
    assert other.all() == ()
    assert other.find(again) is None


def test_processes_that_add_at_once_lose_nothing(keys):
    code = (
        "import sys; from edge_runtime.server.keys import Keys\n"
        "for n in range(10): Keys(sys.argv[1]).add(f'{sys.argv[2]}-{n}')"
    )
    adding = [
        subprocess.Popen([sys.executable, "-c", code, str(keys.path), name]) for name in "abc"
    ]
    assert [process.wait(60) for process in adding] == [0, 0, 0]
    assert sorted(key.name for key in keys.all()) == sorted(
        f"{name}-{n}" for name in "abc" for n in range(10)
    )


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 65, "käse", "a\n"])
def test_a_name_that_is_none(keys, name):
    with pytest.raises(ConfigError, match="no name for a key"):
        keys.add(name)
    assert not keys.path.exists()


def test_a_name_is_taken_once(keys):
    keys.add("phone")
    with pytest.raises(ConfigError, match="there is a key called phone") as caught:
        keys.add("phone")
    assert "keys rm phone" in caught.value.fix
    with pytest.raises(ConfigError, match="no key called tablet") as caught:
        keys.remove("tablet")
    assert "phone" in caught.value.fix


def test_their_number_is_bounded(keys, monkeypatch):
    monkeypatch.setattr(module, "MOST", 2)
    keys.add("a")
    keys.add("b")
    with pytest.raises(ConfigError, match="there are 2 keys"):
        keys.add("c")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version":1}', '{"version":1,"keys":[{"name":"x"}]}']
)
def test_a_file_that_holds_no_keys_is_named_and_the_keys_stay(keys, text):
    shown = keys.add("phone")
    keys.all()
    keys.path.write_text(text)
    with pytest.raises(ConfigError, match="does not hold keys") as caught:
        keys.all()
    assert str(keys.path) in caught.value.message
    assert keys.find(shown).name == "phone"
    with pytest.raises(ConfigError):
        keys.add("tablet")
    assert keys.path.read_text() == text


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnwritable) as caught:
        Keys(tmp_path / "file" / "keys.json").add("phone")
    assert "user" in caught.value.fix


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_adds_belongs_to_the_owner_of_the_folder(tmp_path):
    os.chown(tmp_path, 12345, 12346)
    keys = Keys(tmp_path / "keys" / "keys.json")
    keys.add("phone")
    for path in (keys.path, keys.path.parent):
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 12346)
    os.chown(keys.path, 777, 778)
    keys.add("kiosk")
    assert (keys.path.stat().st_uid, keys.path.stat().st_gid) == (777, 778)
    assert keys.path.stat().st_mode & 0o777 == 0o600


def test_where_they_are(monkeypatch, tmp_path):
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(tmp_path / "store"))
    assert default_path() == tmp_path / "store" / "keys" / "keys.json"
    monkeypatch.delenv("EDGE_RUNTIME_STORE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(module.os, "access", lambda path, mode: False)
    assert default_path() == tmp_path / "state" / "edge-runtime" / "keys" / "keys.json"
    monkeypatch.setattr(module.os, "access", lambda path, mode: True)
    assert default_path() == Path("/var/lib/edge-runtime/keys/keys.json")

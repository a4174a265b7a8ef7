"""`edge-runtime keys`, and the key that `listen` shows."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from edge_runtime import cli
from edge_runtime.server.keys import Keys


@pytest.fixture
def keys(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGE_RUNTIME_STORE", str(tmp_path))
    return Keys(tmp_path / "keys" / "keys.json")


def run(*line):
    return CliRunner().invoke(cli.app, ["keys", *line])


def test_add_list_and_remove(keys):
    added = run("add", "phone")
    assert added.exit_code == 0
    key = added.stdout.strip()  # nothing else is on standard output
    keys.all()
    assert keys.find(key).name == "phone"
    assert "this once" in added.stderr
    assert "next:" in added.stderr
    assert key not in added.stderr
    listed = run("list")
    assert "phone" in listed.stdout
    assert str(keys.path) in listed.stdout
    assert key not in listed.stdout
    removed = run("rm", "phone")
    assert removed.exit_code == 0
    assert "removed" in removed.stdout
    assert "the last" in removed.stdout
    assert keys.all() == ()
    assert "keys add NAME" in run("list").stdout


def test_as_json(keys):
    added = json.loads(run("add", "phone", "--json").stdout)
    assert added["name"] == "phone"
    keys.all()
    assert keys.find(added["key"]).name == "phone"
    (row,) = map(json.loads, run("list", "--json").stdout.splitlines())
    assert row == {"name": "phone", "created": keys.all()[0].created}
    assert json.loads(run("rm", "phone", "--json").stdout) == {"name": "phone", "removed": True}
    assert run("list", "--json").stdout == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["add", "a b"], "no name for a key"),
        (["rm", "phone"], "no key called phone"),
    ],
)
def test_what_is_wrong_is_said_with_its_fix(keys, line, said):
    done = run(*line)
    assert done.exit_code == 1
    assert said in done.stderr
    assert "fix:" in done.stderr


def test_the_file_of_the_configuration(keys, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(f'[admitting]\nkeys_file = "{tmp_path / "mine.json"}"\n')
    assert run("add", "phone", "--config", str(config)).exit_code == 0
    assert [key.name for key in Keys(tmp_path / "mine.json").all()] == ["phone"]
    assert not keys.path.exists()

"""`engines list|promote|rollback|rm` on calibrated models: what is said, and what happens."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from edge_runtime import cli
from edge_runtime.engines import choice, variants
from edge_runtime.engines.calibrate import gate


def run(*line: object) -> Result:
    return CliRunner().invoke(cli.app, [str(each) for each in line])


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch) -> None:
    monkeypatch.setattr("edge_runtime.cli.variants.present", lambda: False)


def states() -> dict[str, str]:
    lines = run("engines", "list", "--json").stdout.splitlines()
    return {row["fingerprint"]: row["state"] for row in map(json.loads, lines)}


def test_they_are_listed_with_what_they_are(
    calibrated, made_up_store, made_up_scheme, monkeypatch
) -> None:
    verdict = gate.judge([gate.Outcome("one", 3.0, "a b c d", "a b c e", "a b c d")], 50.0)
    first = calibrated(verdict=verdict).name
    second = calibrated(made_up_scheme, candidate=True, forced=True).name
    assert states() == {first: "active", second: "candidate, forced"}
    said = " ".join(run("engines", "list", "made-up").stdout.split())
    assert f"made-up {first[:8]} calibrated, int8, WER +25.00 points over 4 words, " in said
    assert f"made-up {second[:8]} calibrated, int8, not judged, " in said
    variants.reject(made_up_store, "made-up", second, "too slow")
    assert states()[second] == "rejected: too slow, forced"
    row = json.loads(run("engines", "list", "--json").stdout.splitlines()[0])
    assert row["variant"]["graphs"] == row["fingerprint"]
    monkeypatch.setattr("edge_runtime.engines.store._quantiser", lambda: "another")
    assert "of no use: the calibrated made-up" in states()[first]


def test_promote_and_rollback_say_what_is_next(
    calibrated, made_up_store, made_up_scheme, monkeypatch
) -> None:
    first = calibrated().name
    second = calibrated(made_up_scheme, candidate=True, forced=True).name
    said = run("engines", "promote", "made-up")
    assert said.exit_code == 0
    assert said.stdout.splitlines() == [
        f"made-up: {second} is active",
        "Next: systemctl restart edge-runtime, or start edge-runtime serve again",
    ]
    assert "its gate refused it, it was forced" in said.stderr
    assert run("engines", "rollback", "made-up").stdout.startswith(
        f"made-up: {first} is active again\nNext: systemctl restart"
    )
    back = json.loads(run("engines", "rollback", "made-up", "--json").stdout)
    assert (back["model"], back["active"]) == ("made-up", None)
    last = run("engines", "rollback", "made-up")
    assert (last.exit_code, last.stdout) == (1, "")
    assert "error: made-up serves in full precision, and nothing served before" in last.stderr
    # With a GPU its engine is due first.
    monkeypatch.setattr("edge_runtime.cli.variants.present", lambda: True)
    told = json.loads(run("engines", "promote", "made-up", first[:6], "--json").stdout)
    assert (told["fingerprint"], told["state"]) == (first, "active")
    assert told["next"][0] == "edge-runtime build made-up --precision int8"
    assert choice.read(made_up_store, "made-up").active == first


def test_promote_of_none_says_how_to_get_one(made_up_store) -> None:
    said = run("engines", "promote", "made-up")
    assert said.exit_code == 1
    assert "error: no calibrated made-up is on trial" in said.stderr
    assert "edge-runtime calibrate made-up --audio DIR" in said.stderr
    named = run("engines", "promote", "made-up", "abc")
    assert "error: there is no calibrated model abc of made-up" in named.stderr


def test_verify_and_rm_take_them(calibrated, made_up_store, made_up_scheme) -> None:
    first, second = calibrated(), calibrated(made_up_scheme)
    said = run("engines", "verify")
    assert said.exit_code == 0
    assert sorted(said.stdout.splitlines()) == sorted(
        f"made-up {each.name}: whole" for each in (first, second)
    )
    (first / "table.npy").write_bytes((first / "table.npy").read_bytes()[:-1] + b"?")
    damaged = run("engines", "verify", "made-up")
    assert damaged.exit_code == 1
    assert "fix:   Run: edge-runtime calibrate made-up --audio DIR" in damaged.stderr
    every = run("engines", "rm", "made-up", "--all", "--yes")
    assert every.exit_code == 1  # what was calibrated is named or stays
    assert "is a calibrated model, no engine" in every.stderr
    one = run("engines", "rm", "made-up", "--engine", second.name[:6], "--yes")
    assert one.stdout.startswith(f"made-up: deleted {second.name}, ")
    assert f"made-up: {first.name} is active now" in one.stderr
    assert not second.exists()
    assert run("engines", "rm", "made-up", "--yes").exit_code == 0
    assert choice.read(made_up_store, "made-up") == choice.Choice()
    exported = run("engines", "export", "made-up", "-o", first.parent / "x.tar")
    assert "there is no engine of made-up" in exported.stderr


def test_export_needs_an_engine(calibrated, tmp_path) -> None:
    name = calibrated().name
    said = run("engines", "export", "made-up", "-o", tmp_path / "x.tar")
    assert said.exit_code == 1
    assert f"{name} is a calibrated model, no engine" in said.stderr
    assert f"edge-runtime build made-up --precision int8 --variant {name}" in said.stderr

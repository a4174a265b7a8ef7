"""`edge-runtime doctor`: what it prints, and how it ends."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from edge_runtime import cli
from edge_runtime.doctor import Finding
from tests.unit.doctor.recording import machine


def run(*line):
    return CliRunner().invoke(cli.app, ["doctor", *line])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return machine("wheel-without-sm87", tmp_path_factory.mktemp("machine"))


def test_errors_end_with_1_and_say_what_next(wheel):
    said = run("--root", str(wheel))
    assert said.exit_code == 1
    lines = said.stdout.splitlines()
    assert lines[0].endswith("Super, aarch64")
    (at,) = [n for n, line in enumerate(lines) if line.startswith("error    onnxruntime: ")]
    assert lines[at + 1].startswith("         why: It has kernels for 8.9, ")
    assert lines[at + 2].startswith("         fix: pip install ")
    assert lines[-3] == "1 error, no warnings"
    assert lines[-2].lstrip() == f"Next: {lines[at + 2].strip().removeprefix('fix: ')}"
    assert "\x1b" not in said.stdout


def test_this_very_machine_gives_no_traceback_and_json_says_all():
    said = run("--json")
    assert said.exit_code in (0, 1)
    assert not isinstance(said.exception, Exception)
    whole = json.loads(said.stdout)
    assert whole["facts"]["troubles"] == {}
    assert None not in whole["facts"].values()
    levels = [each["level"] for each in whole["findings"]]
    assert (whole["errors"], whole["warnings"]) == (levels.count("error"), levels.count("warning"))
    (found,) = [each for each in whole["findings"] if each["check"] == "python"]
    assert found["level"] == "ok"
    assert said.exit_code == (1 if whole["errors"] else 0)


def test_what_is_no_recorded_machine(tmp_path):
    said = run("--root", str(tmp_path))
    assert said.exit_code == 1
    assert "machine.json" in said.stderr
    assert run("--rooot", "x").exit_code == 2


def test_at_a_terminal_it_keeps_to_80_columns_and_commands_to_one_line(monkeypatch, capsys):
    from edge_runtime.cli import doctor

    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    long = "word " * 40
    command = "pip install " + "x" * 90
    doctor._show("title", [Finding("ports", "error", long, long, command)])
    lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert f"         fix: {command}" in lines
    wrapped = [line for line in lines if "word" in line]
    assert len(wrapped) > 5
    assert max(map(len, wrapped)) <= 80
    assert all(line.startswith(("error    ", "         ")) for line in wrapped)


def test_nothing_wrong_says_what_to_do_next(capsys):
    from edge_runtime.cli import doctor

    doctor._show("title", [Finding("ports", "ok", "8765: nobody else is there")])
    said = capsys.readouterr().out
    assert said.endswith("nothing is in the way\nNext: edge-runtime serve\n")

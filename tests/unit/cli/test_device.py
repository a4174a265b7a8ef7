"""Which device is used instead of the first choice is said on the terminal, once."""

from __future__ import annotations

from typing import get_args

import pytest
from typer.testing import CliRunner

from edge_runtime.cli import app
from edge_runtime.cli.device import Name, say_fallback
from edge_runtime.device import NAMES


def test_a_fallback_is_one_line_on_standard_error(capsys):
    say_fallback("cpu is used. tensorrt: no engine was built. Run: edge-runtime build M")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "fallback: cpu is used. tensorrt: no engine was built. Run: edge-runtime build M\n"
    )


def test_without_one_nothing_is_said(capsys):
    say_fallback(None)
    assert capsys.readouterr() == ("", "")


def test_the_command_line_knows_every_device():
    assert get_args(Name) == NAMES


@pytest.mark.parametrize("command", ["serve", "transcribe", "bench"])
def test_these_commands_take_a_device(command):
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    assert "--device" in shown
    assert "onnx-cuda" in shown


@pytest.mark.parametrize("command", ["serve", "transcribe", "bench"])
def test_an_unknown_device_is_wrong_usage_that_names_them(command):
    result = CliRunner().invoke(app, [command, "--device", "gpu"])
    assert result.exit_code == 2
    assert "'gpu' is not one of" in result.output
    for name in NAMES:
        assert name in result.output


@pytest.mark.parametrize("command", ["serve", "transcribe"])
def test_an_unknown_device_of_the_settings_is_an_error_that_names_them(command, monkeypatch):
    monkeypatch.setenv("EDGE_RUNTIME_DEVICE", "gpu")
    more = ["--port", "0"] if command == "serve" else ["talk.wav"]
    result = CliRunner().invoke(app, [command, *more])
    assert result.exit_code == 1
    assert "unknown device 'gpu'" in result.output
    assert "onnx-cuda" in result.output

"""The unit that rebuilds engines: systemd takes every line of it, and what it runs ends well."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edge_runtime.device.cuda import present

UNIT = Path(__file__).parents[2] / "systemd" / "edge-runtime-build.service"
PROGRAM = "/opt/edge-runtime/bin/edge-runtime"


@pytest.fixture
def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, comment_prefixes=("#",), strict=False)
    parser.optionxform = str
    parser.read(UNIT)
    return parser


def verify(folder: Path, text: str) -> str:
    """What `systemd-analyze` has against a unit; a word that it does not know is only said."""
    path = folder / UNIT.name
    path.write_text(text)
    line = ["systemd-analyze", "verify", "--man=no", str(path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.stderr + ("" if done.returncode == 0 else f"exit {done.returncode}")


def test_systemd_has_nothing_against_it(tmp_path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here: apt-get install systemd")
    text = UNIT.read_text()
    assert PROGRAM in text
    # The program is where it was installed, or this would be all that is said.
    there = text.replace(PROGRAM, shutil.which("true"))
    assert verify(tmp_path, there) == ""
    assert "Nyce" in verify(tmp_path, there.replace("Nice=", "Nyce="))


def test_it_waits_for_no_server_and_no_server_for_it(unit) -> None:
    assert unit["Service"]["Type"] == "oneshot"
    related = {"Before", "Requires", "Requisite", "BindsTo", "PartOf", "Conflicts"}
    assert not related & set(unit["Unit"])
    assert "edge-runtime.service" not in unit["Unit"].get("After", "")


def test_it_may_write_where_it_builds_and_see_the_gpu(unit) -> None:
    service = unit["Service"]
    assert service["Environment"] == f"EDGE_RUNTIME_STORE=/var/lib/{service['StateDirectory']}"
    assert "video" in service["SupplementaryGroups"].split()
    assert not {"PrivateDevices", "DevicePolicy", "MemoryDenyWriteExecute"} & set(service)


@pytest.mark.skipif(present(), reason="here is a GPU: it would build an engine")
def test_what_it_runs_ends_well_without_a_gpu(unit, tmp_path) -> None:
    program, *options = unit["Service"]["ExecStart"].split()
    assert program == PROGRAM
    done = subprocess.run(
        [sys.executable, "-m", "edge_runtime", *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "EDGE_RUNTIME_STORE": str(tmp_path / "store")},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "moonshine-tiny-en: no engine is needed: there is no NVIDIA GPU here, "
        "or its driver is not loaded\n"
    )
    assert not (tmp_path / "store").exists()

"""The unit that serves, and the variables that come with it."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edge_runtime.config import load
from edge_runtime.server.keys import default_path

FOLDER = Path(__file__).parents[2] / "systemd"
UNIT = FOLDER / "edge-runtime.service"
PROGRAM = "/opt/edge-runtime/bin/edge-runtime"


@pytest.fixture
def service() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, comment_prefixes=("#",), strict=False)
    parser.optionxform = str
    parser.read(UNIT)
    return parser["Service"]


def test_systemd_has_nothing_against_it(tmp_path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here: apt-get install systemd")
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text().replace(PROGRAM, shutil.which("true")))
    line = ["systemd-analyze", "verify", "--man=no", str(path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)


def test_it_serves_from_a_store_with_keys_that_it_cannot_change(service, monkeypatch) -> None:
    assert service["ExecStart"] == f"{PROGRAM} serve"
    name, _, store = service["Environment"].partition("=")
    monkeypatch.setenv(name, store)
    keys = default_path().parent
    # A folder: of a file that is replaced, the unit would go on seeing the old one.
    assert str(keys) in service["ReadOnlyPaths"].split()
    made = [f"/var/lib/{folder}" for folder in service["StateDirectory"].split()]
    assert made == [store, str(keys)]
    assert service["LimitCORE"] == "0"
    assert not {"PrivateDevices", "DevicePolicy", "MemoryDenyWriteExecute"} & set(service)


def test_its_variables_are_settings(service) -> None:
    assert service["EnvironmentFile"] == "-/etc/edge-runtime/edge-runtime.env"
    text = (FOLDER / "edge-runtime.env").read_text()
    shown = dict(re.findall(r"^#?(EDGE_RUNTIME_\w+)=(\S+)$", text, re.M))
    assert len(shown) >= 6
    config = load(environ=shown)
    assert config.serving.host == "0.0.0.0"
    assert config.admitting.tls_cert == "/etc/edge-runtime/cert.pem"

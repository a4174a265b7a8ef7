"""Probes in a process of their own: what hangs, aborts or fails costs only itself."""

from __future__ import annotations

import os
import time

import pytest

from edge_runtime.doctor import Survey, judge
from edge_runtime.doctor.probes import PROBES
from tests.unit.doctor.recording import machine


def chosen(*names, **seconds):
    """Some of the probes, some of them with other limits."""
    return [
        probe._replace(seconds=seconds.get(probe.name, probe.seconds))
        for name in names
        for probe in PROBES
        if probe.name == name
    ]


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """Puts a module in front of every other: `broken(name, code)`."""

    def make(name, code):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")

    return make


def test_libraries_that_hang_and_abort_are_named_and_all_else_is_looked_at(broken, tmp_path):
    broken("tensorrt", "import time\ntime.sleep(600)")
    broken("onnxruntime", "import os, sys\nprint('not for us', file=sys.stderr)\nos.abort()")
    seen = []
    began = time.monotonic()
    probes = chosen("python", "tensorrt", "pycuda", "onnxruntime", "user", tensorrt=0.5)
    facts = Survey(probes=probes).run(lambda probe: seen.append(probe.name))
    assert time.monotonic() - began < 50
    assert seen == [probe.name for probe in probes]
    assert facts.troubles == {
        "tensorrt": "took longer than 0.5 s and was ended",
        "onnxruntime": "ended the process (SIGABRT): not for us",
    }
    assert facts.python is not None
    assert facts.pycuda is not None
    assert facts.user is not None
    named = {each.check: each for each in judge(facts) if each.level == "error"}
    assert {"tensorrt", "onnxruntime"} <= named.keys()


def test_settings_that_cannot_be_read_in_time_are_not_tried_again(tmp_path):
    root = machine("pc", tmp_path / "pc")
    config = root / "etc/edge-runtime/config.toml"
    config.unlink()
    os.mkfifo(config)  # reading it waits for a writer, as a file of a network that is gone
    probes = chosen("settings", "card", "store", settings=0.3)
    facts = Survey(config=str(config), root=str(root), probes=probes).run()
    assert facts.troubles == {"settings": "took longer than 0.3 s and was ended"}
    assert facts.settings is None
    assert facts.store is not None
    (found,) = [each for each in judge(facts) if each.level != "ok"]
    assert (found.check, found.level) == ("settings", "error")


def test_what_a_probe_raises_is_told(tmp_path):
    root = machine("pc", tmp_path / "pc")
    (root / "proc/net/tcp").write_text("  sl\n   0: 0:XYZ 0:0 0A 0 0 0 0 0 0\n")
    facts = Survey(root=str(root), probes=chosen("settings")).run()
    assert facts.troubles["settings"].startswith("failed: ValueError")

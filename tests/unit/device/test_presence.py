"""Libraries of the device line, asked for by those who may not import them."""

from __future__ import annotations

import sys
from types import ModuleType

import onnxruntime
import pytest

from edge_runtime.device.presence import load
from edge_runtime.errors import ConfigError, MissingExtra


def test_onnxruntime_with_its_providers():
    found = load("onnxruntime")
    assert found.version == onnxruntime.__version__
    assert found.providers == tuple(onnxruntime.get_available_providers())


def test_what_is_not_installed_is_none(monkeypatch):
    monkeypatch.setattr("edge_runtime.device.presence.installed", lambda: ("tensorrt_rtx",))
    assert load("tensorrt", "tensorrt") is None
    monkeypatch.setattr("edge_runtime.device.presence.installed", tuple)
    assert load("tensorrt") is None


def forgotten() -> dict[str, ModuleType]:
    """The modules of pycuda, which are not loaded any more."""
    names = [each for each in sys.modules if each.partition(".")[0] == "pycuda"]
    return {name: sys.modules.pop(name) for name in names}


@pytest.fixture
def no_pycuda():
    """None is loaded, and what the test loads does not stay: others take it for what is here."""
    before = forgotten()
    yield
    forgotten()
    sys.modules.update(before)


def test_what_does_not_load_says_why(tmp_path, monkeypatch, no_pycuda):
    (tmp_path / "pycuda").mkdir()
    (tmp_path / "pycuda/__init__.py").write_text("VERSION_TEXT = '2025.1'\n")
    (tmp_path / "pycuda/driver.py").write_text("raise ImportError('libcurand.so.11')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtra, match=r"libcurand\.so\.11"):
        load("pycuda")
    forgotten()
    (tmp_path / "pycuda/driver.py").write_text("")
    assert load("pycuda").version == "2025.1"


def test_another_name():
    with pytest.raises(ConfigError, match="unknown library"):
        load("torch")

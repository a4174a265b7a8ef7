"""What jetson-stats tells completes the files, and its failures cost nothing else."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest

from edge_runtime.config import Power
from edge_runtime.errors import MissingExtra
from edge_runtime.power import open_reader
from edge_runtime.power.jtop import Jtop
from edge_runtime.power.readings import Clock, Mode
from edge_runtime.power.sysfs import Sysfs


class Service:
    """As an open `jtop.jtop` of version 4.3 is: milliwatts, kHz, percent."""

    def __init__(self) -> None:
        self.power = {
            "rail": {
                "VDD_IN": {"volt": 5080, "curr": 1000, "power": 9999, "online": True},
                "VDD_USB": {"power": 700, "online": True},
                "ucsi": {"power": 0, "online": False},
            },
            "tot": {"power": 9999},
        }
        self.memory = {"RAM": {"tot": 7_800_000}, "EMC": {"cur": 2_133_000, "val": 12}}
        self.nvpmodel = SimpleNamespace(id=0, name="15W")
        self.running = True
        self.closed = 0

    def ok(self, spin: bool) -> bool:
        assert spin, "nobody waits for a service"
        return self.running

    def close(self) -> None:
        self.closed += 1


def test_it_completes_the_files(lay):
    root = lay("orin-nano")
    (root / "var/lib/nvpmodel/status").unlink()
    files = Sysfs(root).read(1.0)
    now = Jtop(root, Service).read(1.0)
    assert now.zones == files.zones
    assert now.rails == {**files.rails, "VDD_USB": 0.7}, "what the files say stays"
    assert now.board == files.board
    assert now.memory == Clock(2133e6, 0.12)
    assert now.mode == Mode(0, "15W")


def test_what_the_files_say_stays(lay):
    now = Jtop(lay("thor"), Service).read(1.0)
    assert now.memory == Clock(4266e6)
    assert now.mode is not None
    assert now.mode.name == "120W"


def test_a_service_that_fails_is_asked_no_more(lay, caplog):
    root, service = lay("thor"), Service()
    reader = Jtop(root, lambda: service)
    service.memory = None
    assert reader.read(1.0) == Sysfs(root).read(1.0)
    assert "jtop is read no more" in caplog.text
    assert service.closed == 1
    service.memory = {}
    assert reader.read(2.0).rails == Sysfs(root).read(2.0).rails
    reader.close()
    assert service.closed == 1


def test_what_a_service_said_before_it_ended_is_not_told(lay, caplog):
    root, service = lay("orin-nano"), Service()
    reader = Jtop(root, lambda: service)
    assert "VDD_USB" in reader.read(1.0).rails
    service.running = False
    assert reader.read(2.0).rails == Sysfs(root).read(2.0).rails
    assert "the service ended" in caplog.text


def test_a_service_that_does_not_answer_leaves_the_files(lay, caplog):
    def connect():
        raise ConnectionRefusedError("jtop.service is not active")

    root = lay("thor")
    assert Jtop(root, connect).read(1.0) == Sysfs(root).read(1.0)
    assert "jtop.service is not active" in caplog.text


@pytest.mark.skipif(importlib.util.find_spec("jtop") is not None, reason="jetson-stats is here")
def test_without_jetson_stats_the_error_says_how():
    with pytest.raises(MissingExtra, match=r"pip install 'edge-runtime\[jtop\]'"):
        open_reader(Power(reader="jtop"))
    assert isinstance(open_reader(Power()), Sysfs)

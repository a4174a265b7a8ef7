"""What is read of boards whose files are known from public sources; nothing else is said."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from edge_runtime.power import files
from edge_runtime.power.readings import Clock, Fan, Mode
from edge_runtime.power.sysfs import AGAIN, Sysfs


def read(root: Path):
    return Sysfs(root).read(1.0)


def test_orin_nano(lay):
    now = read(lay("orin-nano"))
    zones = {zone.name: zone for zone in now.zones}
    assert set(zones) == {
        "cpu-thermal", "gpu-thermal", "soc0-thermal", "soc1-thermal", "soc2-thermal", "tj-thermal",
    }  # fmt: skip
    assert zones["cpu-thermal"].celsius == pytest.approx(51.687)
    assert zones["cpu-thermal"].trips == {
        "critical": 104.5, "hot": 99.0, "passive": 95.0, "active": 50.0,
    }  # fmt: skip
    assert zones["cpu-thermal"].throttles == 95.0
    assert zones["tj-thermal"].throttles == 94.5
    assert now.rails == pytest.approx(
        {"VDD_IN": 5.6896, "VDD_CPU_GPU_CV": 1.093824, "VDD_SOC": 1.539456}
    )
    assert now.board == pytest.approx(5.6896)
    assert now.gpu == {"17000000.gpu": Clock(306e6, 0.385)}
    assert now.memory is None, "debugfs is root's alone"
    assert now.mode == Mode(0, "15W", 0.6)
    assert now.fans["pwmfan"].share == pytest.approx(94 / 255)
    assert now.fans["pwm_tach"] == Fan(rpm=2410)
    assert now.throttled == ()
    assert now.joules == {}
    assert now.jetson


def test_agx_orin(lay):
    now = read(lay("agx-orin"))
    zones = {zone.name: zone for zone in now.zones}
    assert "cv0-thermal" not in zones, "-256 means off"
    assert zones["tj-thermal"].throttles == 94.5
    assert zones["tmp451 temp1"].throttles is None
    assert "NC" not in now.rails
    fed = {"VDD_GPU_SOC": 3.35104, "VDD_CPU_CV": 1.06624, "VIN_SYS_5V0": 3.721216}
    assert now.rails == pytest.approx({**fed, "VDDQ_VDD2_1V8AO": 0.364032})
    assert now.board == pytest.approx(sum(fed.values())), "memory is fed by VIN_SYS_5V0"
    assert now.gpu == {"17000000.gpu": Clock(306e6, 0.0)}
    assert now.mode is not None
    assert (now.mode.name, now.mode.gpu_share) == ("MODE_30W", pytest.approx(624.75 / 1300.5))


def test_thor(lay):
    now = read(lay("thor"))
    zones = {zone.name: zone for zone in now.zones}
    assert "gpu-thermal" not in zones, "its GPU is off"
    assert zones["tj-thermal"].celsius == pytest.approx(55.1)
    assert zones["tj-thermal"].throttles == 104.5
    assert "nvme temp1" not in zones
    assert now.rails["VDD_GPU"] == pytest.approx(7.7056)
    assert now.rails["VIN"] == now.board == pytest.approx(40.25)
    assert now.gpu == {"gpu-gpc-0": Clock(1386e6)}
    assert now.memory == Clock(4266e6)
    assert now.mode == Mode(1, "120W", 1.0)
    assert now.fans["pwm_tach"].rpm == 1786


def test_nano_with_the_older_driver(lay):
    now = read(lay("nano"))
    zones = {zone.name: zone for zone in now.zones}
    assert "PMIC-Die" not in zones
    assert zones["GPU-therm"].throttles == 101.0
    assert zones["AO-therm"].throttles is None
    assert now.rails == pytest.approx({"POM_5V_IN": 1.935, "POM_5V_GPU": 0.04, "POM_5V_CPU": 0.524})
    assert now.board == pytest.approx(1.935)
    assert now.mode == Mode(1, "5W", pytest.approx(640 / 921.6))
    assert now.gpu == {"57000000.gpu": Clock(76.8e6, 0.0)}


def test_pc(lay):
    now = read(lay("pc"))
    zones = {zone.name: zone for zone in now.zones}
    assert set(zones) == {"acpitz", "x86_pkg_temp", "coretemp Package id 0"}
    assert zones["x86_pkg_temp"].throttles is None, "its trip is not set"
    assert zones["coretemp Package id 0"].throttles == 90.0
    assert now.joules == {"package-0": pytest.approx(5123.0)}
    assert now.fans == {"thinkpad": Fan(rpm=2700)}
    assert (now.rails, now.board, now.mode, now.jetson) == ({}, None, None, False)


@pytest.mark.parametrize("board", ["orin-nano", "agx-orin", "thor", "nano", "pc"])
def test_whatever_is_missing_is_absent(lay, board):
    """Each file is spoiled, then taken away, alone; in the end all are, at once."""
    root = lay(board)
    reader = Sysfs(root)
    whole = reader.read(1.0)
    paths = [path for path in sorted(root.rglob("*")) if path.is_file()]
    said = {path: path.read_text() for path in paths}
    odd = ("", "nonsense\n", "-1\n", "99999999999999999999\n")
    for number, path in enumerate(paths):
        path.write_text(odd[number % len(odd)])
        reader.read(1.0)
        path.unlink()
        reader.read(1.0)
        if number % 5 == 0:
            read(root)
        path.write_text(said[path])
    assert reader.read(1.0) == whole
    for spoiled in odd:
        for path in paths:
            path.write_text(spoiled)
        nothing = (reader.read(1.0), read(root))
        assert all(now.mode is None for now in nothing)
        if spoiled in odd[:2]:
            assert all((now.zones, now.rails) == ((), {}) for now in nothing)
    shutil.rmtree(root)
    gone = reader.read(1.0)
    assert (gone.zones, gone.rails, gone.board, gone.mode) == ((), {}, None, None)
    assert read(root).zones == ()


def test_a_board_without_its_total_has_none(lay):
    root = lay("agx-orin")
    (root / "sys/class/hwmon/hwmon3/curr3_input").unlink()
    now = read(root)
    assert set(now.rails) == {"VDD_GPU_SOC", "VDD_CPU_CV", "VDDQ_VDD2_1V8AO"}
    assert now.board is None


def test_modes(lay):
    root = lay("orin-nano")
    status = root / "var/lib/nvpmodel/status"
    reader = Sysfs(root)
    for number, name, share in ((1, "25W", 0.9), (2, "MAXN_SUPER", 1.0), (3, "7W", 0.4)):
        status.write_text(f"pmode:{number:04}\n")
        assert reader.read(1.0).mode == Mode(number, name, pytest.approx(share))
    status.write_text("pmode:0009\n")
    assert reader.read(1.0).mode is None


def test_what_the_board_slows_down_is_said(lay):
    root = lay("thor")
    (root / "sys/class/thermal/cooling_device3/cur_state").write_text("1\n")
    (root / "sys/class/thermal/cooling_device1/cur_state").write_text("4\n")  # a fan is none
    assert read(root).throttled == ("gpu",)


def test_a_hot_surface_is_not_throttling(lay):
    root = lay("orin-nano")
    (surface,) = (
        path.parent
        for path in root.glob("sys/class/thermal/cooling_device*/type")
        if path.read_text() == "hot-surface-alert\n"
    )
    (surface / "cur_state").write_text("1\n")
    assert read(root).throttled == ()


def test_drivers_that_come_later_are_found(lay, tmp_path):
    (tmp_path / "empty").mkdir()
    reader = Sysfs(tmp_path / "empty")
    shutil.copytree(lay("thor"), tmp_path / "empty", dirs_exist_ok=True)
    assert reader.read(1.0).zones == ()
    assert len(reader.read(2 * AGAIN).zones) == 5


def test_a_sensor_without_power_is_asked_once(monkeypatch, tmp_path):
    asked = []

    def busy(descriptor, size):
        asked.append(size)
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    (tmp_path / "temp").write_text("1\n")
    monkeypatch.setattr(os, "read", busy)
    assert files.number(tmp_path / "temp") is None
    assert len(asked) == 1

"""Machines as they are reported: what is wrong is named with what mends it, and nothing else is."""

from __future__ import annotations

import pytest

from edge_runtime.doctor import Facts, judge
from edge_runtime.doctor.probes import PROBES
from edge_runtime.doctor.recorded import RecordedMachine
from tests.unit.doctor.recording import MACHINES, machine

JETSON_WHEELS = "--index-url https://pypi.jetson-ai-lab.io"

# By folder: what is wrong as (check, level), words of what and why, and words of the fix.
SITUATIONS = {
    "wheel-without-sm87": (
        [("onnxruntime", "error")],
        ["no kernels for this GPU (sm_87)", "8.9, 9.0, 12.0, 12.1", "no kernel image"],
        ["pip install --force-reinstall onnxruntime-gpu", f"{JETSON_WHEELS}/sbsa/cu130"],
    ),
    "cudnn-mismatch": (
        [("cudnn", "error")],
        ["wants cuDNN 8, here is libcudnn.so.9", "the CPU is used"],
        ["pip install --force-reinstall onnxruntime-gpu", f"{JETSON_WHEELS}/jp6/cu126"],
    ),
    "engine-of-another-tensorrt": (
        [("engines", "error")],
        ["was built by TensorRT 10.7.0, here is 10.3.0"],
        ["edge-runtime build moonshine-tiny-en --precision fp16 --tensorrt tensorrt"],
    ),
    "jtop-unknown-l4t": (
        [("jetson-stats", "warning")],
        ["4.3.2 does not know this L4T", "no L4T 36.4.4"],
        ["sudo pip3 install -U jetson-stats", "systemctl restart jtop", 'reader = "sysfs"'],
    ),
    "cpu-only-wheel": (
        [("tensorrt", "error"), ("onnxruntime", "error")],
        ["for the CPU alone", "this Python does not see it"],
        [
            "pip uninstall -y onnxruntime",
            "python3 -m venv --system-site-packages /opt/edge-runtime",
        ],
    ),
    "no-group-audio": (
        [("sound", "warning")],
        ["robot may not record", "/dev/snd/pcmC2D0c", "no sound card"],
        ["sudo usermod -aG audio robot"],
    ),
}


def looked_at(root, config=""):
    """The facts of a recorded machine, without a process of its own."""
    found = RecordedMachine(root)
    return Facts(**{probe.name: probe(found, config) for probe in PROBES})


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_is_wrong_is_named_with_what_mends_it(name, tmp_path):
    wrong, words, fixes = SITUATIONS[name]
    findings = judge(looked_at(machine(name, tmp_path)))
    bad = [each for each in findings if each.level != "ok"]
    assert [(each.check, each.level) for each in bad] == wrong
    said = " ".join(f"{each.what} {each.why}" for each in bad)
    mended = " ".join(each.fix for each in bad)
    assert [word for word in words if word not in said] == []
    assert [word for word in fixes if word not in mended] == []


@pytest.mark.parametrize("name", ["orin-jetpack-6", "pc"])
def test_a_healthy_machine_gives_no_alarm(name, tmp_path):
    findings = judge(looked_at(machine(name, tmp_path)))
    assert [each for each in findings if each.level != "ok"] == []
    checks = {each.check for each in findings}
    assert {"python", "gpu", "onnxruntime", "settings", "model", "store", "disk"} <= checks
    assert {"memory", "ports", "keys", "sound", "clock"} <= checks


def test_what_the_healthy_ones_are_is_said(tmp_path):
    said = {
        each.check: each.what
        for name in ("pc", "orin-jetpack-6")
        for each in judge(looked_at(machine(name, tmp_path / name)))
    }
    assert said["jetpack"].startswith("L4T 36.4.4 (JetPack 6), NVIDIA Jetson Orin Nano")
    assert said["gpu"] == "Orin, compute capability 8.7"
    assert said["tensorrt"] == "tensorrt 10.3.0"
    assert said["power"] == "mode 15W"
    assert said["onnxruntime"] == "1.23.2, for the CPU alone; TensorRT has the GPU"
    assert said["engines"].endswith("of moonshine-tiny-en serves here")
    assert said["memory"] == "5.3 of 7.4 GB are free"
    assert said["disk"] == "40.0 of 119 GB are free"
    assert "ReSpeaker" in said["sound"]


def test_every_machine_has_a_source():
    page = (MACHINES / "README.md").read_text()
    for folder in MACHINES.iterdir():
        if folder.is_dir():
            assert f"| `{folder.name}` |" in page
    assert {"orin-jetpack-6", "pc", *SITUATIONS} == {
        each.name for each in MACHINES.iterdir() if each.is_dir()
    }

"""What only a machine with a GPU can show; skipped, saying why, where there is none."""

from pathlib import Path

import pytest

from edge_runtime import device

DRIVERS = ("/dev/nvidiactl", "/dev/nvgpu", "/dev/nvhost-gpu")


def test_auto_picks_the_gpu() -> None:
    if not any(Path(driver).exists() for driver in DRIVERS):
        pytest.skip("no NVIDIA GPU on this machine")
    if set(device.NAMES) <= {"auto", "cpu"}:
        pytest.skip("edge_runtime has no GPU device yet: it runs on the CPU here, too")
    assert device.open_device("auto").name != "cpu"

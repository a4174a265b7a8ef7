"""What the machine says of itself."""

from __future__ import annotations

import pytest

from edge_runtime.engines import board as boards
from edge_runtime.engines.board import board
from edge_runtime.errors import DeviceError

FILES = {
    "/proc/meminfo": "MemTotal:  8000000 kB\nMemFree:  100 kB\nMemAvailable:    4000000 kB\n",
    "/etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic\n",
    "/proc/driver/nvidia/version": (
        "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build\n"
        "GCC version:  collect2: error: 11.4.0\n"
    ),
}


class Driver:
    """Of a GPU that is not there: what `board` asks of it."""

    name, capability = "Orin", (8, 7)

    def __init__(self, *, integrated: bool) -> None:
        self.integrated, self.closed = integrated, False

    def free(self) -> tuple[int, int]:
        return 1000, 2000

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def jetson(monkeypatch) -> None:
    monkeypatch.setattr(boards, "_read", FILES.__getitem__)


def test_a_jetson(jetson) -> None:
    found = board(Driver(integrated=True))
    assert (found.capability, found.gpu) == ((8, 7), "Orin")
    assert (found.l4t, found.driver) == ("36.4.3", "540.4.0")
    assert found.free == 4_000_000 * 1024  # not what CUDA says: caches can be given back


def test_a_card_has_memory_of_its_own(jetson) -> None:
    assert board(Driver(integrated=False)).free == 1000


def test_the_gpu_of_that_number_is_opened_and_closed_here(jetson, monkeypatch) -> None:
    gpus = [Driver(integrated=True), Driver(integrated=False)]
    gpus[1].name, gpus[1].capability = "RTX", (8, 9)
    monkeypatch.setattr(boards, "present", lambda: True)
    monkeypatch.setattr(boards, "open_driver", gpus.__getitem__)
    found = board(1)
    assert (found.gpu, found.capability, found.free) == ("RTX", (8, 9), 1000)
    assert [gpu.closed for gpu in gpus] == [False, True]
    assert board(0).capability == (8, 7)


def test_a_gpu_that_does_not_work_says_why(jetson, monkeypatch) -> None:
    def broken(index: int) -> None:
        raise DeviceError("CUDA is 12.2", "Update the driver.")

    monkeypatch.setattr(boards, "present", lambda: True)
    monkeypatch.setattr(boards, "open_driver", broken)
    found = board(0)
    assert found.capability is None
    assert found.trouble == "CUDA is 12.2. Update the driver."


def test_this_machine_without_a_gpu(monkeypatch) -> None:
    monkeypatch.setattr(boards, "present", lambda: False)
    found = board(0)
    assert found.capability is None
    assert found.gpu == found.trouble == ""
    assert found.free > 10_000_000
    assert found.host


def test_files_that_are_not_there_say_nothing(monkeypatch) -> None:
    monkeypatch.setattr(boards, "present", lambda: False)
    monkeypatch.setattr(boards, "_read", lambda path: "")
    found = board(0)
    assert (found.l4t, found.driver, found.free) == ("", "", 0)

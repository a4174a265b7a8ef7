"""What the driver and libraries take of the GPU is in the budget, and so under the cap."""

import sys
import threading

import numpy as np
import pytest

from edge_runtime.device.cuda import Driver, bindings, card, open_driver, outlay
from edge_runtime.device.cuda.budget import Budget
from edge_runtime.device.cuda.device import CudaDevice
from edge_runtime.errors import DeviceError, MemoryCapped
from tests.fakes import cuda
from tests.fakes.cuda_names import CUresult
from tests.fakes.gpu import FakeGpu

MEBI = 1 << 20


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch, gpu: FakeGpu):
    return cuda.install_nvml(monkeypatch, gpu)


def driver_of(device: CudaDevice) -> int:
    return device.budget.by_kind["driver"]


def test_the_context_is_counted(nvml, gpu: FakeGpu, library: str) -> None:
    gpu.overhead["context"] = 20 * MEBI
    driver = open_driver(0, library)
    assert driver.opening == 20 * MEBI
    device = CudaDevice(driver, budget=Budget(21 * MEBI))
    assert device.budget.taken == driver_of(device) == 20 * MEBI
    with pytest.raises(DeviceError, match=f"no {2 * MEBI} bytes .*driver {20 * MEBI}"):
        device.alloc((2 * MEBI,), np.uint8)
    device.alloc((MEBI,), np.uint8)
    device.budget.check_integrity()
    device.close()
    assert device.budget.taken == 0


def test_a_context_that_is_over_the_cap_is_let_go(nvml, gpu: FakeGpu, library: str) -> None:
    gpu.overhead["context"] = 20 * MEBI
    driver = open_driver(0, library)
    with pytest.raises(DeviceError, match=f"no {20 * MEBI} bytes of driver memory"):
        CudaDevice(driver, budget=Budget(10 * MEBI))
    assert gpu.retained == gpu.used == 0


@pytest.mark.parametrize(
    "trouble", ["no library", "another version", "another card", "older bindings"]
)
def test_where_nvml_says_nothing_the_context_counts_for_nothing(
    nvml, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    def absent(*given: object) -> None:
        raise RuntimeError("libnvidia-ml.so.1 is not there")

    def unknown(*given: object) -> None:
        raise nvml.NvmlError("Not Supported")

    gpu.overhead["context"] = MEBI
    if trouble == "no library":
        monkeypatch.setattr(nvml, "init_v2", absent)
    elif trouble == "another version":
        monkeypatch.delattr(nvml, "device_get_memory_info_v2")
    elif trouble == "another card":
        monkeypatch.setattr(nvml, "device_get_handle_by_pci_bus_id_v2", unknown)
    else:
        monkeypatch.delitem(sys.modules, "cuda.bindings.nvml")
    assert open_driver(0, "cuda-bindings").opening == 0


def test_code_that_is_loaded_is_counted(device: CudaDevice, gpu: FakeGpu) -> None:
    gpu.overhead["module"] = 3 * MEBI
    gpu.kernels["any"] = lambda: None
    device.alloc((100,), np.uint8)
    device.module(b"code", ["any"])
    assert driver_of(device) == 3 * MEBI
    assert device.budget.allocations == 1
    for _ in range(9):
        device.module(b"code", ["any"])
    with pytest.raises(DeviceError, match=f"no {3 * MEBI} bytes of driver memory"):
        device.module(b"code", ["any"])
    assert driver_of(device) == 30 * MEBI
    device.budget.check_integrity()


def test_graphs_are_counted_and_one_over_the_cap_is_let_go(
    device: CudaDevice, gpu: FakeGpu
) -> None:
    gpu.overhead["graph"] = 20 * MEBI
    stream = device.stream()
    target = device.alloc((4,), np.float32)

    def call() -> None:
        device.driver.fill(target.pointer, 16, stream.handle)

    kept = device.capture(call, stream)
    assert driver_of(device) == 20 * MEBI
    with pytest.raises(MemoryCapped, match=f"no {20 * MEBI} bytes of driver memory"):
        device.capture(call, stream)
    assert len(gpu.executables) == 1
    kept.replay()
    kept.close()
    assert driver_of(device) == 0
    for _ in range(5):
        device.capture(call, stream).close()
    assert driver_of(device) == 0


def test_what_is_allocated_meanwhile_is_not_counted_twice(device: CudaDevice, gpu: FakeGpu) -> None:
    with device.outlay.counted():
        held = device.alloc((MEBI,), np.uint8)
        pointer = device.take(512)
        gpu.used += 4096
    assert driver_of(device) == 4096
    # What small allocations fill later was not lost.
    with device.outlay.counted():
        gpu.used -= 4000
    assert driver_of(device) == 96
    with device.outlay.counted():
        gpu.used -= 96 + 512  # another process let go of memory
    assert driver_of(device) == 0
    gpu.used += 512
    device.give(pointer)
    del held


def test_blocks_of_several_threads_are_one(device: CudaDevice, gpu: FakeGpu) -> None:
    inside, over = threading.Event(), threading.Event()

    def other() -> None:
        with device.outlay.counted():
            inside.set()
            assert over.wait(5)

    thread = threading.Thread(target=other)
    with device.outlay.counted():
        thread.start()
        assert inside.wait(5)
        gpu.used += 1000
    assert driver_of(device) == 0
    over.set()
    thread.join()
    assert driver_of(device) == 1000
    gpu.used -= 1000


def test_a_block_that_fails_says_why_itself(device: CudaDevice, gpu: FakeGpu) -> None:
    @device.outlay.counted()
    def fails() -> None:
        gpu.used += 100 * MEBI
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        fails()
    gpu.used -= 100 * MEBI
    for nth in (1, 2):
        gpu.fail("cuMemGetInfo", CUresult.CUDA_ERROR_UNKNOWN, nth)
        with device.outlay.counted():
            gpu.used += 512
        gpu.used -= 512
    assert driver_of(device) == 0


def test_on_one_chip_the_process_itself_counts(
    gpu: FakeGpu, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu.integrated = True
    device = CudaDevice(open_driver(0, library), budget=Budget(8 << 40))
    device.alloc((1000,), np.uint8)
    own = device.budget.by_kind["host"]
    assert 10 * MEBI < own < 4 << 30
    assert own == pytest.approx(card.resident(), rel=0.2)
    monkeypatch.setattr(device.budget, "cap", own // 2)
    with pytest.raises(DeviceError, match=r"no 1024 bytes .*host \d+"):
        device.alloc((1000,), np.uint8)
    monkeypatch.undo()
    device.close()


def test_on_one_chip_the_machine_says_what_is_gone(
    gpu: FakeGpu, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [8000, 7500, 7000, 7000 - 4096 - 512 - 100, None, 1]
    monkeypatch.setattr(bindings, "free_on_card", lambda bus, integrated: free.pop(0))
    monkeypatch.setattr(outlay, "free_on_card", lambda bus, integrated: free.pop(0))
    gpu.integrated = True
    device = CudaDevice(open_driver(0, library))
    assert driver_of(device) == 500
    with device.outlay.counted():
        kept = device.alloc((1024,), np.float32, "mapped"), device.alloc((512,), np.uint8)
    assert driver_of(device) == 600
    with device.outlay.counted():
        pass  # nobody says
    assert (driver_of(device), free) == (600, [])
    del kept
    device.close()


def test_a_card_of_its_own_leaves_the_process_out(device: CudaDevice) -> None:
    device.alloc((1000,), np.uint8)
    assert device.budget.by_kind["host"] == 0


def test_linux_says_what_can_be_had(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, process = tmp_path / "meminfo", tmp_path / "statm"
    machine.write_text("MemTotal:   9000 kB\nMemFree:   10 kB\nMemAvailable:   2000 kB\n")
    process.write_text("5000 250 100 1 0 900 0\n")
    monkeypatch.setattr(card, "_MACHINE", machine)
    monkeypatch.setattr(card, "_PROCESS", process)
    monkeypatch.setattr(card.os, "sysconf", {"SC_PAGE_SIZE": 4096}.__getitem__)
    assert card.resident() == 250 * 4096
    assert card.free_on_card("", integrated=True) == 2000 * 1024 + 250 * 4096
    process.write_text("")
    assert card.resident() == 0
    machine.write_text("MemTotal:   9000 kB\n")
    assert card.free_on_card("", integrated=True) is None
    machine.unlink()
    assert card.free_on_card("", integrated=True) is None


def test_every_driver_says_what_opening_took(driver: Driver) -> None:
    assert driver.opening == 0

"""The budget's sums are right, and it refuses what goes over the cap."""

import threading

import pytest

from edge_runtime.device.cuda.budget import Budget
from edge_runtime.errors import DeviceError


def test_counts_by_kind() -> None:
    budget = Budget()
    budget.take(100, "device")
    budget.take(50, "pinned")
    budget.take(30, "scratch")
    budget.take(20, "engine")
    budget.give(100, "device")
    assert budget.by_kind == {
        "device": 0, "pinned": 50, "scratch": 30, "engine": 20, "driver": 0, "host": 0,
    }  # fmt: skip
    assert budget.taken == 100
    assert budget.peak == 200
    assert budget.allocations == 4
    budget.check_integrity()


def test_the_cap_is_all_of_it_and_not_a_byte_more() -> None:
    budget = Budget(1000)
    budget.take(600, "engine")
    budget.take(300, "pinned")
    with pytest.raises(DeviceError) as caught:
        budget.take(101, "device")
    said = str(caught.value)
    for fact in ("101 bytes of device", "900 are taken", "pinned 300, engine 600", "of the 1000"):
        assert fact in said
    assert "[computing] memory_mb" in caught.value.fix
    assert budget.taken == 900
    assert budget.allocations == 2
    budget.take(100, "device")
    assert budget.taken == budget.peak == 1000
    budget.check_integrity()


def test_what_is_measured_counts_and_is_no_allocation() -> None:
    budget = Budget(1000)
    budget.found(300)
    budget.take(600, "engine")
    assert (budget.taken, budget.peak, budget.allocations) == (900, 900, 1)
    with pytest.raises(
        DeviceError, match=r"no 101 bytes of driver memory: 900 .*\(engine 600, driver 300\)"
    ):
        budget.found(401)
    assert budget.by_kind["driver"] == 300
    budget.found(400)
    with pytest.raises(DeviceError, match="no 1 bytes of device memory"):
        budget.take(1, "device")
    budget.found(100)
    budget.take(300, "device")
    budget.check_integrity()
    budget.found(-1)
    with pytest.raises(AssertionError, match="were measured"):
        budget.check_integrity()


def test_the_process_itself_counts_when_the_cap_is_checked() -> None:
    sizes = [500, 700, 400]
    budget = Budget(1000)
    budget.resident = lambda: sizes.pop(0)
    budget.take(400, "device")
    assert budget.by_kind["host"] == 500
    with pytest.raises(
        DeviceError, match=r"no 200 bytes .* 1100 are taken \(device 400, host 700\) of the 1000"
    ):
        budget.take(200, "device")
    assert (budget.taken, budget.peak) == (900, 900)
    budget.take(200, "device")
    assert (budget.taken, budget.by_kind["host"]) == (1000, 400)
    budget.check_integrity()
    free = Budget()
    free.resident = lambda: 1 // 0  # nobody asks where there is no cap
    free.take(1, "device")


def test_says_that_none_is_taken() -> None:
    with pytest.raises(DeviceError, match=r"0 are taken \(none\) of the 10 "):
        Budget(10).take(11, "device")


def test_counts_what_was_allocated_since_it_was_warm() -> None:
    budget = Budget()
    budget.take(1, "device")
    assert budget.since_warm == 1
    budget.mark_warm()
    assert budget.since_warm == 0
    budget.give(1, "device")
    budget.take(1, "device")
    assert budget.since_warm == 1
    assert budget.allocations == 2


def test_what_was_not_taken_is_not_given_back() -> None:
    budget = Budget()
    budget.take(10, "device")
    with pytest.raises(AssertionError, match="never taken"):
        budget.give(10, "pinned")
    with pytest.raises(AssertionError, match="never taken"):
        budget.give(11, "device")
    budget.give(10, "device")
    with pytest.raises(AssertionError, match="never taken"):
        budget.give(0, "device")


def test_integrity_finds_wrong_sums() -> None:
    budget = Budget()
    budget.take(10, "device")
    budget.give(9, "device")  # not the size that was taken
    with pytest.raises(AssertionError, match="1 bytes of device memory in 0 allocations"):
        budget.check_integrity()
    capped = Budget(10)
    capped.take(10, "device")
    capped.cap = 5
    with pytest.raises(AssertionError, match="cap 5"):
        capped.check_integrity()
    forgot = Budget()
    forgot.take(10, "device")
    forgot.allocations = 0
    with pytest.raises(AssertionError, match="of 0 allocations"):
        forgot.check_integrity()


def test_threads_lose_no_byte() -> None:
    budget = Budget()

    def work() -> None:
        for _ in range(500):
            budget.take(3, "device")
            budget.take(2, "pinned")
            budget.give(3, "device")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.by_kind["pinned"] == budget.taken == 4000
    assert budget.allocations == 4000
    budget.check_integrity()

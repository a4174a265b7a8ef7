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
    assert budget.by_kind == {"device": 0, "pinned": 50, "scratch": 30, "engine": 20}
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
    assert budget.by_kind == {"device": 0, "pinned": 4000, "scratch": 0, "engine": 0}
    assert budget.allocations == 4000
    budget.check_integrity()

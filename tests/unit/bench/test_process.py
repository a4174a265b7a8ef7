"""Readings of a process from /proc."""

import os
import time
from pathlib import Path

import pytest

from edge_runtime.bench.process import Process, machine

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def test_processor_time_agrees_with_the_clock_of_the_process():
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    assert Process(os.getpid()).cpu() == pytest.approx(time.process_time(), abs=0.05)


def test_what_all_use_is_at_least_what_one_does():
    before = machine()
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    after = machine()
    assert before is not None
    assert after is not None
    assert after - before >= 0.08


def test_the_peak_is_at_least_what_is_resident_now():
    mine = Process(os.getpid())
    now, peak = mine.memory(), mine.peak()
    assert now is not None
    assert peak is not None
    assert 1 << 20 < now <= peak


def test_a_process_that_is_gone_has_no_readings():
    gone = Process(2**22 + 1)  # beyond the largest pid
    assert gone.cpu() is None
    assert gone.memory() is None

"""What a manager is told, in the words that it knows."""

from __future__ import annotations

import logging
import os
import socket
import time

import pytest

from edge_runtime.systemd.manager import Manager


def test_each_thing_is_one_datagram_of_its_lines(heard) -> None:
    manager = Manager({"NOTIFY_SOCKET": heard.path})
    assert manager.listens
    manager.loading("loading tiny", 30.0)
    assert heard() == {"STATUS": "loading tiny", "EXTEND_TIMEOUT_USEC": "30000000"}
    manager.ready("at http://127.0.0.1:8765")
    assert heard() == {"READY": "1", "STATUS": "at http://127.0.0.1:8765"}
    manager.alive()
    assert heard() == {"WATCHDOG": "1"}
    manager.status("1 session")
    assert heard() == {"STATUS": "1 session"}
    manager.stopping("finals")
    assert heard() == {"STOPPING": "1", "STATUS": "finals"}
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    manager.reloading("taking")
    said = heard()
    assert (said["RELOADING"], said["STATUS"]) == ("1", "taking")
    assert before <= int(said["MONOTONIC_USEC"]) <= before + 5_000_000


def test_an_address_outside_the_file_system() -> None:
    name = f"edge-runtime-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(f"\0{name}")
        ear.settimeout(5)
        Manager({"NOTIFY_SOCKET": f"@{name}"}).alive()
        assert ear.recv(100) == b"WATCHDOG=1"


def test_without_a_manager_nothing_is_said_and_nothing_fails(caplog) -> None:
    manager = Manager({})
    manager.ready("here")
    assert not manager.listens
    assert manager.watchdog is None
    assert caplog.text == ""


def test_a_manager_that_is_gone_is_only_warned_of(tmp_path, caplog) -> None:
    with caplog.at_level(logging.WARNING):
        Manager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("here")
    assert "systemd was not told READY=1: [Errno 2]" in caplog.text


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": str(os.getpid())}, 0.5),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({}, None),
    ],
)
def test_its_watchdog(environ, seconds) -> None:
    assert Manager({"NOTIFY_SOCKET": "/there", **environ}).watchdog == seconds
    assert Manager(environ).watchdog is None

"""What `systemctl show` says of the service, read."""

from __future__ import annotations

import pytest

from edge_runtime.cli.service import _told, _variables
from edge_runtime.systemd.control import Status, _seconds

READY = {
    "LoadState": "loaded",
    "UnitFileState": "enabled",
    "ActiveState": "active",
    "SubState": "running",
    "Result": "success",
    "StatusText": "moonshine-tiny-en on cpu at http://127.0.0.1:8765, 2 of 32 sessions",
    "MainPID": "312",
    "NRestarts": "1",
    "ActiveEnterTimestamp": "Mon 2026-11-30 07:40:12 UTC",
    "WatchdogUSec": "30s",
    "WatchdogTimestamp": "Mon 2026-11-30 07:41:02 UTC",
    "MemoryCurrent": "214958080",
}


def test_ready() -> None:
    found = Status.of(READY)
    assert found == Status(
        installed=True,
        enabled=True,
        active="active",
        ready=True,
        failed=None,
        since="Mon 2026-11-30 07:40:12 UTC",
        says=READY["StatusText"],
        url="http://127.0.0.1:8765",
        pid=312,
        restarts=1,
        watchdog=30.0,
        fed="Mon 2026-11-30 07:41:02 UTC",
        memory_bytes=214958080,
    )
    assert _told(found) == [
        "ready, 1 restarts",
        "since     Mon 2026-11-30 07:40:12 UTC",
        f"says      {READY['StatusText']}",
        "url       http://127.0.0.1:8765",
        "watchdog  30 s, last fed Mon 2026-11-30 07:41:02 UTC",
        "memory    215 MB",
        "at boot   yes",
    ]


def test_one_that_was_killed_by_its_watchdog() -> None:
    shown = READY | {"ActiveState": "activating", "SubState": "auto-restart", "Result": "watchdog"}
    found = Status.of(shown | {"MainPID": "0", "MemoryCurrent": "[not set]"})
    assert (found.ready, found.failed, found.pid, found.memory_bytes) == (
        False, "watchdog", None, None,
    )  # fmt: skip
    assert _told(found)[0] == "activating, 1 restarts, it failed: watchdog"
    assert _told(found)[-1].startswith("Next: sudo systemctl restart")


def test_none_is_installed() -> None:
    found = Status.of({"LoadState": "not-found", "ActiveState": "inactive"})
    assert not found.installed
    assert not found.ready
    assert _told(found) == ["not installed", "Next: sudo edge-runtime service install"]


def test_no_number_of_bytes_is_none() -> None:
    assert Status.of(READY | {"MemoryCurrent": str(2**64 - 1)}).memory_bytes is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30.0), ("1min 30s", 90.0), ("500ms", 0.5), ("0", None), ("infinity", None)],
)
def test_times(text, seconds) -> None:
    assert _seconds(text) == seconds


def test_variables_of_the_environment_file(tmp_path) -> None:
    file = tmp_path / "edge-runtime.env"
    assert _variables(file) == {}
    file.write_text('# no\nEDGE_RUNTIME_MODEL="tiny"\n#EDGE_RUNTIME_PORT=1\nPATH=/bin\n')
    assert _variables(file) == {"EDGE_RUNTIME_MODEL": "tiny"}

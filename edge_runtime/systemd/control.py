"""systemd's own commands: what we ask of them, and what they say of the service."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from edge_runtime.errors import ServiceError
from edge_runtime.systemd.units import SERVICE, SOCKET, USER

_ASKED = (
    "LoadState", "UnitFileState", "ActiveState", "SubState", "Result", "StatusText", "MainPID",
    "NRestarts", "ActiveEnterTimestamp", "WatchdogUSec", "WatchdogTimestamp", "MemoryCurrent",
)  # fmt: skip
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Status(msgspec.Struct, frozen=True):
    """How the service is. Times are as systemd writes them; `watchdog` is in seconds."""

    installed: bool
    enabled: bool
    active: str
    ready: bool
    failed: str | None
    since: str | None
    says: str | None
    url: str | None
    pid: int | None
    restarts: int
    watchdog: float | None
    fed: str | None
    memory_bytes: int | None

    @classmethod
    def of(cls, shown: Mapping[str, str]) -> Status:
        """From the lines of `systemctl show`."""
        says = shown.get("StatusText") or None
        url = re.search(r"https?://[^\s,]+", says or "")
        result = shown.get("Result", "success")
        return cls(
            installed=shown.get("LoadState") == "loaded",
            enabled=shown.get("UnitFileState") == "enabled",
            active=shown.get("ActiveState", "inactive"),
            ready=shown.get("ActiveState") == "active" and shown.get("SubState") == "running",
            failed=None if result == "success" else result,
            since=shown.get("ActiveEnterTimestamp") or None,
            says=says,
            url=url[0] if url else None,
            pid=_number(shown.get("MainPID")) or None,
            restarts=_number(shown.get("NRestarts")) or 0,
            watchdog=_seconds(shown.get("WatchdogUSec", "")),
            fed=shown.get("WatchdogTimestamp") or None,
            memory_bytes=_number(shown.get("MemoryCurrent")),
        )


def check_booted() -> None:
    """Raises `ServiceError` where systemd does not run this machine."""
    if not Path("/run/systemd/system").is_dir() or shutil.which("systemctl") is None:
        raise ServiceError(
            "systemd does not run this machine",
            "In a container or under another init, have that run: edge-runtime serve",
        )


def check_root() -> None:
    """Raises `ServiceError` for anybody but root."""
    if os.geteuid() != 0:
        raise ServiceError("only root may change services", "Run the same command with sudo.")


def status() -> Status:
    """How the service is now."""
    line = ["show", SERVICE, *(f"--property={name}" for name in _ASKED)]
    return Status.of(dict(row.split("=", 1) for row in systemctl(*line).splitlines() if "=" in row))


def systemctl(*arguments: str) -> str:
    """What it says. Raises `ServiceError` with its complaint."""
    return run("systemctl", *arguments)


def run(*line: str) -> str:
    """The standard output of a command. Raises `ServiceError` with what it complained of."""
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ServiceError(f"there is no command {line[0]}", "Install systemd.") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise ServiceError(f"{' '.join(line)} failed: {said}", "See: journalctl -xe")
    return done.stdout


def make_user_and_folders(root: Path) -> None:
    """Carry out what sysusers.conf and tmpfiles.conf ask for."""
    where = [] if root == Path("/") else [f"--root={root}"]
    run("systemd-sysusers", *where, "edge-runtime.conf")
    run("systemd-tmpfiles", "--create", *where, "edge-runtime.conf")


def enable(root: Path, *, socket: bool) -> None:
    """From the next boot on it serves: at once, or when somebody comes to its socket."""
    where = [] if root == Path("/") else [f"--root={root}"]
    systemctl(*where, "enable", "--quiet", SOCKET if socket else SERVICE)


def remove_user(root: Path) -> None:
    """Remove the service's user and its group, where they are."""
    where = [] if root == Path("/") else ["--prefix", str(root)]
    for name, command in (("passwd", "userdel"), ("group", "groupdel")):
        known = root / "etc" / name
        if known.exists() and re.search(rf"^{USER}:", known.read_text(), re.M):
            run(command, *where, USER)


def last_lines(count: int = 10) -> str:
    """The end of the service's journal, nothing where that cannot be read."""
    try:
        return run("journalctl", f"--unit={SERVICE}", f"--lines={count}", "--output=cat").strip()
    except ServiceError:
        return ""


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and int(text) < 1 << 63 else None


def _seconds(text: str) -> float | None:
    """`1min 30s` in seconds; None for 0 and for what says that there is no watchdog."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([a-z]+)", text)
    found = sum(float(count) * _UNITS.get(unit, 0.0) for count, unit in parts)
    return found or None

"""The manager that started this process, and what it is told: `sd_notify` in datagrams."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping

_log = logging.getLogger(__name__)
_PATIENCE = 1.0  # s that a manager which is busy may keep us waiting


class Manager:
    """Says `NAME=value` lines to whoever `NOTIFY_SOCKET` names, and to nobody without it.

    What the names mean: sd_notify(3).
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # an address that begins with @ lies in no file system
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog: float | None = None
        """Seconds after which it restarts a service that says nothing; None: it never does."""
        if address and environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            micros = environ.get("WATCHDOG_USEC", "")
            self.watchdog = int(micros) / 1e6 if micros.isdigit() and int(micros) else None

    @property
    def listens(self) -> bool:
        """Whether there is one that wants to be told."""
        return bool(self._address)

    def ready(self, status: str) -> None:
        """It serves from now on, or again after `reloading`."""
        self._say("READY=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        """One line for people: `systemctl status` shows it."""
        self._say(f"STATUS={status}")

    def loading(self, status: str, seconds: float) -> None:
        """It is not ready yet, and wants at least so many more seconds from now on."""
        self._say(f"STATUS={status}", f"EXTEND_TIMEOUT_USEC={round(seconds * 1e6)}")

    def alive(self) -> None:
        """It works: the watchdog counts from here."""
        self._say("WATCHDOG=1")

    def reloading(self, status: str) -> None:
        """It takes what changed; `ready` follows."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._say("RELOADING=1", f"MONOTONIC_USEC={now}", f"STATUS={status}")

    def stopping(self, status: str) -> None:
        """It ends, by itself or because it was asked to."""
        self._say("STOPPING=1", f"STATUS={status}")

    def _say(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(_PATIENCE)
                sender.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:  # serving goes on without it; the watchdog judges
            _log.warning("systemd was not told %s: %s", lines[0], error)

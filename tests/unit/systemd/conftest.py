"""The manager's end of its socket."""

from __future__ import annotations

import socket

import pytest


@pytest.fixture
def heard(tmp_path):
    """`heard()` gives the lines of the next datagram; `heard.path` is where to send."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        path = tmp_path / "notify"
        ear.bind(str(path))
        ear.settimeout(5)

        def lines() -> dict[str, str]:
            return dict(line.split("=", 1) for line in ear.recv(4096).decode().splitlines())

        lines.path = str(path)
        yield lines

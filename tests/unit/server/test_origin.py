"""Pages that may use the server, and those that may not."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.server.origin import may_enter

MACHINE = socket.gethostname().lower()


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://127.0.0.1:8765", "127.0.0.1:8765"),
        ("http://localhost:3000", "127.0.0.1:8765"),  # a page under development
        ("http://[::1]:3000", "localhost:8765"),
        ("http://192.168.1.20:8765", "192.168.1.20:8765"),
        ("https://192.168.1.20", "192.168.1.20"),
        ("https://[2001:db8::1]:8765", "[2001:db8::1]:8765"),
        (f"http://{MACHINE}:8765", f"{MACHINE}:8765"),
        (f"http://{MACHINE.partition('.')[0]}.local", f"{MACHINE.partition('.')[0]}.local"),
        ("http://kiosk.example.org", "kiosk.example.org"),  # what the server listens on
        ("https://captions.example.org", "192.168.1.20:8765"),  # listed
        ("HTTPS://Captions.Example.org", "192.168.1.20:8765"),
    ],
)
def test_may(origin, host):
    assert may_enter(origin, host, {"https://captions.example.org"}, "kiosk.example.org")


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://evil.example", "127.0.0.1:8765"),
        ("http://evil.example:8765", "evil.example:8765"),  # a name made to lead here
        ("http://192.168.1.21", "192.168.1.20:8765"),
        ("http://localhost.evil.example", "127.0.0.1:8765"),
        ("http://127.0.0.1.evil.example", "127.0.0.1:8765"),
        ("http://captions.example.org", "192.168.1.20:8765"),  # listed with TLS only
        ("https://captions.example.org.evil.example", "192.168.1.20:8765"),
        ("null", "127.0.0.1:8765"),
        ("", "127.0.0.1:8765"),
        ("http://[", "127.0.0.1:8765"),
        ("http://192.168.1.20", "["),
    ],
)
def test_may_not(origin, host):
    assert not may_enter(origin, host, {"https://captions.example.org"}, "0.0.0.0")


@given(st.text(), st.text())
def test_whatever_a_client_writes_is_judged(origin, host):
    assert may_enter(origin, host, set(), "0.0.0.0") in {True, False}
    assert may_enter(f"http://{origin}", f"{origin}:{host}", set(), "0.0.0.0") in {True, False}

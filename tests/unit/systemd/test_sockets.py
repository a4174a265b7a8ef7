"""Sockets that systemd hands over: by name, once, and never to a child."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigError
from edge_runtime.server import address
from edge_runtime.server.address import listen, url
from edge_runtime.systemd.sockets import handed_over


@pytest.fixture
def given():
    """`given(host, …)`: listening sockets as systemd would leave them, and where they begin."""
    made: list[int] = []

    def give(*hosts: str, kind=socket.SOCK_STREAM) -> int:
        bound = []
        for host in hosts:
            one = socket.socket(socket.AF_INET, kind)
            one.bind((host, 0))
            if kind == socket.SOCK_STREAM:
                one.listen()
            bound.append(one)
        # descriptors in a row, as systemd makes them
        for first in range(200, 900, len(bound)):
            if not any(Path(f"/proc/self/fd/{first + n}").exists() for n in range(len(bound))):
                break
        for place, one in enumerate(bound, first):
            os.dup2(one.fileno(), place)
            made.append(place)
            one.close()
        return first

    yield give
    for place in made:
        with contextlib.suppress(OSError):  # the test closed it
            os.close(place)


def environ(names: str, count: int, pid: int | None = None) -> dict[str, str]:
    pid = os.getpid() if pid is None else pid
    return {"LISTEN_PID": str(pid), "LISTEN_FDS": str(count), "LISTEN_FDNAMES": names}


def test_those_of_a_name_are_given_once_in_order(given) -> None:
    first = given("127.0.0.1", "127.0.0.2", "127.0.0.3")
    around = environ("edge-runtime:metrics:edge-runtime", 3)
    sockets = handed_over("edge-runtime", around, first)
    assert [each.getsockname()[0] for each in sockets] == ["127.0.0.1", "127.0.0.3"]
    assert not any(os.get_inheritable(each.fileno()) for each in sockets)
    assert handed_over("edge-runtime", around, first) == []
    (other,) = handed_over("metrics", around, first)
    for each in (*sockets, other):
        each.close()


@pytest.mark.parametrize("around", [{}, environ("edge-runtime", 1, pid=1), environ("", 0)])
def test_there_are_none_for_others_and_without_systemd(around) -> None:
    assert handed_over("edge-runtime", around) == []


@pytest.fixture
def handed(given, monkeypatch):
    """What `listen` finds handed over under the name of the main port."""

    def hand(*hosts: str, **kind) -> None:
        first = given(*hosts, **kind)
        around = environ(":".join([address.MAIN] * len(hosts)), len(hosts))
        monkeypatch.setattr(address, "handed_over", lambda name: handed_over(name, around, first))

    return hand


def test_the_main_port_is_taken_from_systemd_whatever_its_number(handed) -> None:
    handed("127.0.0.1")
    (mine,) = listen("127.0.0.1", 8765, address.MAIN)
    with mine:
        assert mine.getsockname()[1] != 8765
        assert not mine.getblocking()
        assert url([mine]) == f"http://127.0.0.1:{mine.getsockname()[1]}"
        with socket.create_connection(mine.getsockname()):
            pass


def test_other_ports_are_opened_as_ever(handed) -> None:
    handed("127.0.0.1")
    (own,) = listen("127.0.0.2", 0)
    with own:
        assert own.getsockname()[0] == "127.0.0.2"
    for each in listen("127.0.0.1", 0, address.MAIN):
        each.close()


def test_a_socket_unit_opens_nothing_that_the_settings_keep_closed(handed) -> None:
    handed("0.0.0.0")
    with pytest.raises(ConfigError, match=r"listens on 0.0.0.0, the settings on 127.0.0.1 alone"):
        listen("127.0.0.1", 8765, address.MAIN)


def test_a_socket_that_takes_no_connections_is_refused(handed) -> None:
    handed("127.0.0.1", kind=socket.SOCK_DGRAM)
    with pytest.raises(ConfigError, match="takes no TCP connections"):
        listen("127.0.0.1", 8765, address.MAIN)

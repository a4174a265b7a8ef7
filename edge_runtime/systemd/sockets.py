"""Sockets that systemd listens on for a service and hands over when it starts it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, MutableMapping

_FIRST = 3  # after standard input, output and error: sd_listen_fds(3)


def holds(name: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether systemd hands over sockets called `name`, and nobody took them yet."""
    mine = environ.get("LISTEN_PID") == str(os.getpid())
    return mine and name in environ.get("LISTEN_FDNAMES", "").split(":")


def handed_over(
    name: str, environ: MutableMapping[str, str] = os.environ, first: int = _FIRST
) -> list[socket.socket]:
    """The sockets called `name` (`FileDescriptorName=`), in order; none without systemd.

    Each is given once: what is taken is forgotten in `environ`, and no child inherits it.
    """
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = int(environ.get("LISTEN_FDS") or 0)
    names = environ.get("LISTEN_FDNAMES", "").split(":")
    found = []
    for place, called in enumerate(names[:count]):
        if called == name:
            names[place] = _TAKEN
            os.set_inheritable(first + place, False)
            found.append(socket.socket(fileno=first + place))
    environ["LISTEN_FDNAMES"] = ":".join(names)
    return found


_TAKEN = "taken"

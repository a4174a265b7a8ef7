"""Which web pages may use the server: browsers say where a page is from, other clients nothing."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import urlsplit

from edge_runtime.server.address import is_local

_PRIVATE = ("local", "lan", "home", "home.arpa", "internal", "localdomain")
"""What networks at home call their machines, and nobody can buy."""


def may_enter(origin: str, host: str, listed: Collection[str], name: str) -> bool:
    """Whether a page of `origin` may use the server that it reached as `host` (of the request).

    Pages of this machine may, those that are `listed`, and the server's own. Its own are told
    by `host`; but a name there counts only where it is this machine's, or the `name` that the
    server listens on: a foreign page whose name was made to lead here (DNS rebinding) has
    its own name in both.
    """
    origin = origin.lower()
    if origin in listed:
        return True
    from_page, to_us = _hostname(origin), _hostname(f"//{host}")
    if from_page is None:
        return False
    if is_local(from_page):
        return True
    return from_page == to_us and (_is_address(from_page) or from_page in _own_names(name))


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _own_names(name: str) -> set[str]:
    machine = socket.gethostname().lower()
    short = machine.partition(".")[0]
    return {name.lower(), machine, short, *(f"{short}.{domain}" for domain in _PRIVATE)}

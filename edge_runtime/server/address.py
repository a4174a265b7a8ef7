"""The address that a server listens on."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Sequence

from edge_runtime.errors import ConfigError, PortTaken
from edge_runtime.systemd.sockets import handed_over

_BUFFER = 1 << 18
"""Bytes the kernel may hold for each direction of a connection (about 8 s of 16 kHz audio):
what a fast sender has in flight delays its pings and its `flush`."""


MAIN = "edge-runtime"
"""What a socket unit calls the main port: `FileDescriptorName=`."""


def listen(host: str, port: int, name: str = "") -> list[socket.socket]:
    """Listening sockets on every address of `host`; port 0 takes a free one.

    Where systemd listens under this `name` already, its sockets are taken, whatever their port.
    Raises `PortTaken`, or `ConfigError` for a host, a port or a socket that cannot be used.
    """
    if name and (sockets := handed_over(name)):
        try:
            for listener in sockets:
                _check(listener, host)
                _tune(listener)
                listener.setblocking(False)
        except ConfigError:
            for listener in sockets:
                listener.close()
            raise
        return sockets
    sockets = []
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
        )
        for family, kind, protocol, _, address in sorted(set(found)):
            chosen = (address[0], sockets[0].getsockname()[1] if sockets else port, *address[2:])
            listener = socket.socket(family, kind, protocol)
            sockets.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            _tune(listener)
            listener.bind(chosen)
            listener.listen(128)
            listener.setblocking(False)
    except OSError as error:
        for listener in sockets:
            listener.close()
        raise _explained(error, host, port) from None
    return sockets


def url(sockets: Sequence[socket.socket], *, secure: bool = False) -> str:
    """The address for people, such as http://127.0.0.1:8765."""
    host, port = sockets[0].getsockname()[:2]
    scheme = "https" if secure else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def is_local(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check(listener: socket.socket, host: str) -> None:
    """A socket unit must not open what the settings keep to this machine."""
    listens = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if listener.family not in (socket.AF_INET, socket.AF_INET6) or not listens:
        raise ConfigError(
            "systemd hands over a socket that takes no TCP connections",
            "Give the socket unit ListenStream=ADDRESS:PORT and Accept=no.",
        )
    address = listener.getsockname()[0]
    if is_local(host) and not is_local(address):
        raise ConfigError(
            f"the socket unit listens on {address}, the settings on {host} alone",
            f"Set host to {address}, which needs a key, or ListenStream to {host}:PORT.",
        )


def _tune(listener: socket.socket) -> None:
    # accepted connections inherit these
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    # a peer that lost its power is noticed after about 90 s
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _explained(error: OSError, host: str, port: int) -> Exception:
    if error.errno == errno.EADDRINUSE:
        return PortTaken(
            f"port {port} of {host} is taken",
            "Stop the program that listens there, or choose another port: --port NUMBER",
        )
    if error.errno == errno.EACCES:
        return ConfigError(f"port {port} needs privileges", "Choose one above 1023: --port NUMBER")
    return ConfigError(
        f"cannot listen on {host!r}: {error.strerror}",
        "Give --host an address of this machine; 127.0.0.1 is the default.",
    )

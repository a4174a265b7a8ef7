"""Who asks: the address behind a request, and the key that it showed."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from edge_runtime.server.address import is_local
from edge_runtime.server.keys import Key

_FORWARDED = ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via")


@dataclass(frozen=True)
class Caller:
    """`local` is a program of this machine; `known` one that may hear all there is to tell:
    it showed a key, is of this machine, or no key is needed."""

    address: str
    local: bool
    key: Key | None = None
    known: bool = True

    def __str__(self) -> str:
        return f"{self.address}, key {self.key.name}" if self.key is not None else self.address


CALLER = web.RequestKey("caller", Caller)


def caller_of(request: web.BaseRequest) -> Caller:
    """The client as its connection tells.

    A proxy on this machine tells whom it serves: what it appended last is its own word.
    """
    transport = request.transport
    peer = transport.get_extra_info("peername") if transport is not None else ("gone",)
    address = str(peer[0]) if isinstance(peer, tuple) else "127.0.0.1"  # a local socket has none
    if not is_local(address) or not any(name in request.headers for name in _FORWARDED):
        return Caller(address, is_local(address))
    forwarded = request.headers.get("X-Forwarded-For", address)
    return Caller(forwarded.rpartition(",")[2].strip()[:64], local=False)

"""How a path is entered: where its clients carry a key, who needs none, what the others hear."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from aiohttp import web

from edge_runtime.dialects import Dialect, Recorded, Way
from edge_runtime.errors import ProtocolError

_PREFIX = re.compile(r"(?:edge-runtime-key|openai-insecure-api-key)\.(.+)")

_PAIRS = frozenset({"token", "bearer"})


class Carrier(Protocol):
    """The parts of a request that may have a key."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def query(self) -> Mapping[str, str]: ...


def presented(request: Carrier, ways: Sequence[Way]) -> str | None:
    """The key that a request carries, by the first of `ways` that has one:

    `bearer`  Authorization: Bearer KEY
    `token`   Authorization: Token KEY
    `pair`    Sec-WebSocket-Protocol: token, KEY (or bearer, KEY)
    `prefix`  Sec-WebSocket-Protocol: …, edge-runtime-key.KEY (or openai-insecure-api-key.KEY)
    `query`   ?key=KEY or ?token=KEY
    """
    return next((key for way in ways if (key := _READERS[way](request))), None)


def _authorization(request: Carrier, scheme: str) -> str | None:
    said, _, key = request.headers.get("Authorization", "").partition(" ")
    return key.strip() if said.lower() == scheme else None


def _protocols(request: Carrier) -> list[str]:
    return [each.strip() for each in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]


def _paired(request: Carrier) -> str | None:
    protocols = _protocols(request)
    return protocols[1] if len(protocols) == 2 and protocols[0].lower() in _PAIRS else None


def _prefixed(request: Carrier) -> str | None:
    found = (_PREFIX.fullmatch(protocol) for protocol in _protocols(request))
    return next((each[1] for each in found if each), None)


def _asked(request: Carrier) -> str | None:
    return request.query.get("key") or request.query.get("token")


_READERS: dict[Way, Callable[[Carrier], str | None]] = {
    "bearer": lambda request: _authorization(request, "bearer"),
    "token": lambda request: _authorization(request, "token"),
    "pair": _paired,
    "prefix": _prefixed,
    "query": _asked,
}


@dataclass(frozen=True)
class Door:
    """One path: `ways` are the places of its clients' keys, in the order they are looked at.

    `without` says who needs no key: nobody, programs of this machine, or anybody. A path
    that opens a `session` counts against the limits of its client's address; `complaint` is
    the JSON that says no in the words of the path's own protocol.
    """

    ways: tuple[Way, ...] = Dialect.ways
    without: Literal["nobody", "local", "anybody"] = "nobody"
    session: bool = False
    complaint: Callable[[ProtocolError], dict[str, Any]] = Dialect.complaint


DOORS = web.AppKey("doors", dict[str, Door])
"""Those of an application, by the patterns of their paths."""


def door_of(dialect: type[Dialect] | type[Recorded]) -> Door:
    """The door of a path on which sessions are opened in a dialect."""
    return Door(dialect.ways, session=True, complaint=dialect.complaint)

"""How many sessions each address has open, and how many it began in the last minute."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass

from edge_runtime.errors import NotAdmitted

_MINUTE = 60.0


@dataclass
class _Visitor:
    open: int
    tokens: float
    at: float


class Visits:
    """Counts by address, of IPv6 by the /64 that one client has; times are seconds of a clock."""

    def __init__(self, most: int, per_minute: int) -> None:
        self._most = most
        self._per_minute = per_minute
        self._visitors: dict[str, _Visitor] = {}
        self._swept = -math.inf

    def __len__(self) -> int:
        return len(self._visitors)

    def enter(self, address: str, now: float) -> None:
        """One session more. Raises `NotAdmitted` (429) where that is one too many."""
        self._sweep(now)
        visitor = self._visitors.setdefault(household(address), _Visitor(0, self._per_minute, now))
        gained = (now - visitor.at) * self._per_minute / _MINUTE
        visitor.tokens = min(self._per_minute, visitor.tokens + gained)
        visitor.at = now
        if visitor.open >= self._most:
            raise NotAdmitted(
                "too_many_sessions",
                f"this address has {visitor.open} sessions open",
                "Close one, or raise sessions_per_address.",
                429,
            )
        if visitor.tokens < 1:
            raise NotAdmitted(
                "too_often",
                f"this address began {self._per_minute} sessions within a minute",
                "Wait, keep sessions open for longer, or raise sessions_per_minute.",
                429,
                math.ceil((1 - visitor.tokens) * _MINUTE / self._per_minute),
            )
        visitor.tokens -= 1
        visitor.open += 1

    def leave(self, address: str) -> None:
        """One session fewer."""
        self._visitors[household(address)].open -= 1

    def _sweep(self, now: float) -> None:
        """Forget those who have nothing open and could begin as many as anyone."""
        if now - self._swept < _MINUTE:
            return
        self._swept = now
        gone = [
            address
            for address, visitor in self._visitors.items()
            if not visitor.open and now - visitor.at >= _MINUTE
        ]
        for address in gone:
            del self._visitors[address]


def household(address: str) -> str:
    """What counts as one client: an address, of IPv6 its /64."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(parsed), 64), strict=False))
    return str(parsed)

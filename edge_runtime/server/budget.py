"""How much audio a client may send in a second, all its sessions together."""

from __future__ import annotations

import asyncio
import time
from weakref import WeakValueDictionary

BURST = 30.0
"""Seconds of audio that may come at once, before it is held back."""


class Budget:
    """One client's: it is never refused for it, only read more slowly."""

    def __init__(self, rate: float) -> None:
        """Seconds of audio a second; 0: as many as it can send."""
        self._rate = rate
        self._left = BURST
        self._at = time.monotonic()

    def owed(self, seconds: float, now: float) -> float:
        """So much audio came at `now`; seconds until more may."""
        if not self._rate:
            return 0.0
        self._left = min(BURST, self._left + (now - self._at) * self._rate) - seconds
        self._at = now
        return max(0.0, -self._left / self._rate)

    async def spend(self, seconds: float) -> None:
        """So much audio came: wait until more may."""
        if owed := self.owed(seconds, time.monotonic()):
            await asyncio.sleep(owed)


class Budgets:
    """By client; each is forgotten with its last connection."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._known: WeakValueDictionary[str, Budget] = WeakValueDictionary()

    def of(self, client: str) -> Budget:
        """The one of that client."""
        budget = self._known.get(client)
        if budget is None:
            budget = self._known[client] = Budget(self._rate)
        return budget

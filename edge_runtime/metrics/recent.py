"""The last updates one by one: where the time of each went."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

KEPT = 32
"""Updates that are remembered."""


@dataclass
class Recent:
    """Seconds that an update took in each stage; `number` counts updates from 1.

    `emit` is None until its text is on a socket, and stays so where nothing new was to be said.
    """

    number: int
    purpose: str
    queue: float
    encode: float
    draft: float
    decode: float
    emit: float | None = None


class RecentUpdates:
    """Iterating gives them from the oldest to the newest."""

    def __init__(self) -> None:
        self._kept: deque[Recent] = deque(maxlen=KEPT)
        self._count = 0

    def __iter__(self) -> Iterator[Recent]:
        return iter(tuple(self._kept))

    def decoded(self, purpose: str, queue: float, encode: float, draft: float, decode: float
                ) -> None:  # fmt: skip
        """One more."""
        self._count += 1
        self._kept.append(Recent(self._count, purpose, queue, encode, draft, decode))

    def sent(self, purpose: str, seconds: float) -> None:
        """A text of this purpose took so long from the session to its socket.

        It is taken for that of the newest such update, which it is unless two sessions
        say something in the same millisecond. A final may be the text of a speculation.
        """
        made = {purpose, "speculative"} if purpose == "final" else {purpose}
        newest = next((each for each in reversed(self._kept) if each.purpose in made), None)
        if newest is not None and newest.emit is None:
            newest.emit = seconds

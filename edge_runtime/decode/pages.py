"""A fixed number of memory pages: what updates and sessions hold, and what is free."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from edge_runtime.errors import ConfigError

PAGE = 256 * 1024
"""Bytes of a page where nobody says otherwise: about a second of cross-attention's K/V."""


class State(enum.Enum):
    """What the pages of a lease are held for: an update in flight, or what outlives it."""

    ACTIVE = "active"
    COLD = "cold"


@dataclass(eq=False)
class Lease:
    """`pages` of the pool, by number, that hold `size` bytes of `owner`'s state."""

    owner: str
    size: int
    pages: tuple[int, ...]
    state: State = State.ACTIVE
    ended: bool = False


@dataclass
class PagePool:
    """Bookkeeping without memory of its own: page n is bytes [n·page, (n+1)·page) of a buffer.

    All that keys, values and the state of sessions take is accounted here, so that memory is
    bounded by construction: who gets no lease waits, or is refused. From one thread. Of a model
    that keeps state a page is the state of one stream, and its number that of the slot it lies in.
    """

    size: int
    page: int = PAGE
    _free: list[int] = field(init=False, repr=False)
    _held: dict[Lease, None] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Raises `ConfigError` where not even one page fits."""
        if self.page < 1 or self.size < self.page:
            raise ConfigError(
                f"pages of {self.page} bytes do not fit in {self.size}",
                "Lower [computing] page_kb, or give it more memory.",
            )
        # The lowest number is taken first: of a pool that is rarely full the end stays cold.
        self._free = list(range(self.total))[::-1]

    @property
    def total(self) -> int:
        """Pages that there are."""
        return self.size // self.page

    @property
    def free(self) -> int:
        """Pages that nobody holds."""
        return len(self._free)

    def held(self, state: State) -> int:
        """Pages that are held in that state."""
        return sum(len(lease.pages) for lease in self._held if lease.state is state)

    def pages(self, size: int) -> int:
        """Pages that so many bytes take; one at least."""
        return max(1, -(-size // self.page))

    def lease(self, owner: str, size: int, state: State = State.ACTIVE) -> Lease | None:
        """Pages for `size` bytes; None, and nothing is taken, where fewer are free."""
        count = self.pages(size)
        if count > len(self._free):
            return None
        lease = Lease(owner, size, self._taken(count), state)
        self._held[lease] = None
        return lease

    def release(self, lease: Lease) -> None:
        """Give the pages back; a `ValueError` for a lease that ended already."""
        if lease.ended:
            raise ValueError(f"the pages of {lease.owner} are released twice")
        del self._held[lease]
        lease.ended = True
        self._free += lease.pages[::-1]

    def turn(self, lease: Lease, state: State) -> None:
        """Its update begins or is over: the same pages, in another state."""
        if lease.ended:
            raise ValueError(f"the pages of {lease.owner} are used after their release")
        lease.state = state

    def _taken(self, count: int) -> tuple[int, ...]:
        at = len(self._free) - count
        pages = tuple(self._free[at:])
        del self._free[at:]
        return pages

    def check_integrity(self, *, idle: bool = False) -> None:
        """An `AssertionError` where a page is lost or held twice; `idle`: where any is active."""
        seen = sorted(self._free + [page for lease in self._held for page in lease.pages])
        assert seen == list(range(self.total)), f"{len(seen)} pages of {self.total}: {seen}"
        for lease in self._held:
            assert not lease.ended, f"{lease} ended, and holds pages"
            assert len(lease.pages) >= self.pages(lease.size), f"{lease} is too small"
            assert not (idle and lease.state is State.ACTIVE), f"{lease} is held by nobody's update"


def slots(each: int, size: int, *, least: int, most: int) -> int:
    """How many states of `each` bytes `size` bytes are for: `least` in any case, `most` at most."""
    return max(least, min(most, size // each))

"""Whose pages are whose: what updates in flight work in, and the cold state of sessions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from edge_runtime.decode.pages import Lease, PagePool, State


class Tenancy:
    """Leases of a pool, by the batch and the session that they are for.

    Where the model `keeps` the state of streams, it is cold between updates: it stays where it is
    until its session goes on, or until another one needs the pages and nobody's were used longer
    ago. It follows from the audio: who finds it gone computes it again.
    """

    def __init__(self, pool: PagePool, *, keeps: bool) -> None:
        self.pool = pool
        self.keeps = keeps
        self.dropped = 0
        """States that had to make room for others."""
        self._active: dict[tuple[int, str], Lease] = {}
        self._cold: OrderedDict[str, Lease] = OrderedDict()

    @property
    def room(self) -> int:
        """Pages that updates may have: free ones, and those that are taken from who is cold."""
        return self.pool.free + sum(len(lease.pages) for lease in self._cold.values())

    def spare(self, sessions: Collection[str]) -> None:
        """Let others make room before these, whose turn it is."""
        for session in sessions:
            if session in self._cold:
                self._cold.move_to_end(session)

    def begin(self, batch: int, session: str, size: int) -> Lease | None:
        """The pages that its state is in, or free ones, or the coldest; None where all work."""
        lease = self._cold.pop(session, None)
        if lease is not None:
            self.pool.turn(lease, State.ACTIVE)
        else:
            lease = self._found(session, size)
        if lease is not None:
            self._active[batch, session] = lease
        return lease

    def _found(self, session: str, size: int) -> Lease | None:
        while (lease := self.pool.lease(session, size)) is None and self._cold:
            self.pool.release(self._cold.popitem(last=False)[1])
            self.dropped += 1
        return lease

    def end(self, batch: int, session: str, *, over: bool) -> None:
        """An update is done: unless its stream is `over`, what it worked in is cold from now on."""
        lease = self._active.pop((batch, session))
        if over or not self.keeps:
            self.pool.release(lease)
            return
        self.pool.turn(lease, State.COLD)
        self._cold[session] = lease

    def forget(self, session: str) -> None:
        """It does not go on; nothing where it is not cold."""
        lease = self._cold.pop(session, None)
        if lease is not None:
            self.pool.release(lease)

    def check_integrity(self, flying: Collection[tuple[int, str]]) -> None:
        """An `AssertionError` where it is not just the rows in flight that work in pages."""
        self.pool.check_integrity(idle=not self._active)
        assert set(flying) == set(self._active), f"{flying} fly, {set(self._active)} hold pages"
        for session, lease in self._cold.items():
            assert lease.state is State.COLD, f"{session} goes on with {lease}, which is at work"
            assert not lease.ended, f"{session} goes on with {lease}, which others may have"

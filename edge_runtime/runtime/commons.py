"""What runtimes side by side have in common: the board's heat, those who speak, the cores."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Collection, Iterator
from typing import Protocol

from edge_runtime.config import Config
from edge_runtime.metrics import RuntimeMetrics
from edge_runtime.runtime.crowd import Crowd
from edge_runtime.runtime.engine import Batch
from edge_runtime.runtime.power import Governor
from edge_runtime.runtime.stream import Stream

Urgency = tuple[int, float]
"""What a stream wants, and when it was served last: the least comes first."""


class Member(Protocol):
    """A runtime that serves."""

    @property
    def streams(self) -> Collection[Stream]: ...

    @property
    def free(self) -> int:
        """Lanes that wait for a task."""

    @property
    def flying(self) -> Collection[Batch]:
        """The batches that lanes are at, one each."""

    @property
    def cores(self) -> int:
        """Cores of the machine that its lanes share with others; 0 for lanes of its own."""

    def urgency(self) -> Urgency | None:
        """Of what waits most urgently; None where nothing waits."""

    def dispatch(self) -> None:
        """Give work to as many lanes as `Commons.left` says."""

    def pace(self, hop: float) -> None:
        """Partials come `hop` times as seldom."""


class Commons:
    """One for all runtimes of a process; each is a member while it serves.

    Every model has lanes of its own, as many as there are cores where it runs on these: so many
    work at a time in all, and a core that falls free goes to whoever waits most urgently,
    whatever the model. All methods belong to the event loop's thread.
    """

    def __init__(self, config: Config, metrics: RuntimeMetrics) -> None:
        self.governor = Governor(config.power, metrics.power)
        self.crowd = Crowd(config.updating, metrics.load)
        self.names = itertools.count(1)  # of sessions, which are one another's neighbours in logs
        self._members: list[Member] = []
        self._watching: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def shared(self, member: Member) -> Iterator[None]:
        """`member` serves inside the context."""
        self._members.append(member)
        if self._watching is None:
            self._watching = asyncio.create_task(self.governor.run())
        try:
            yield
        finally:
            self._members.remove(member)
            if not self._members:
                self._watching.cancel()
                self._watching = None

    # -- who speaks

    @property
    def streams(self) -> list[Stream]:
        """Those of all members."""
        return [stream for member in self._members for stream in member.streams]

    def give_way(self) -> None:
        """Pace everybody by the board's heat and by how many speak."""
        for said in self.crowd.look(self.streams, self.lanes):
            for stream in self.streams:
                stream.put([said])
        hop = max(self.governor.limits.hop, self.crowd.hop)
        for member in self._members:
            member.pace(hop)

    # -- lanes

    @property
    def flying(self) -> list[Batch]:
        """The batches of all members."""
        return [batch for member in self._members for batch in member.flying]

    @property
    def lanes(self) -> int:
        """Lanes that may work at a time: all there are cores for, or what a hot board leaves."""
        own = sum(_lanes(member) for member in self._members if not member.cores)
        on_cores = sum(_lanes(member) for member in self._members if member.cores)
        return self.governor.limits.most(own + min(on_cores, self._cores))

    def left(self, member: Member) -> int:
        """How many more of a member's lanes may be given work now."""
        left = min(member.free, self.lanes - len(self.flying))
        if member.cores:
            busy = sum(len(each.flying) for each in self._members if each.cores)
            left = min(left, self._cores - busy)
        return left

    def recordings(self, member: Member) -> int:
        """How many of a member's lanes may be at recordings.

        While somebody speaks, one lane of several is never theirs.
        """
        each = self._members
        if not any(stream.live for other in each for stream in other.streams):
            return self.lanes
        taken = sum(
            not batch.live for other in each if other is not member for batch in other.flying
        )
        return max(1, self.lanes - 1) - taken

    def dispatch(self) -> None:
        """Let members give work to their lanes, the one with the most urgent first."""
        if len(self._members) == 1:
            self._members[0].dispatch()
            return
        waiting = [(each.urgency(), number) for number, each in enumerate(self._members)]
        members = list(self._members)
        for _, number in sorted((urgency, at) for urgency, at in waiting if urgency is not None):
            members[number].dispatch()

    @property
    def _cores(self) -> int:
        return max((member.cores for member in self._members), default=0)


def _lanes(member: Member) -> int:
    return member.free + len(member.flying)

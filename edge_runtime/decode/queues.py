"""What waits for a lane, and what lanes are at: the two queues that a scheduler decides between."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from edge_runtime.decode.update import Purpose


@dataclass(frozen=True)
class Wanted:
    """An update that a session wants: to be encoded and checked, then to be stepped.

    `samples` is the audio it has by now, `since` when it began to want anything and `due` what
    orders partials, both in seconds. Nobody speaks into it where it is not `live`.
    Where it `resumes`, what was decoded of it is not lost when it is broken off.
    """

    session: str
    purpose: Purpose
    samples: int
    since: float
    due: float
    live: bool = True
    resumes: bool = False

    @property
    def rank(self) -> tuple[int, float, float]:
        """Lower goes first: finals and then guesses, in the order of their endpoints, which is that
        in which they came; then who is due earliest. A recording waits like a partial."""
        purpose = self.purpose if self.live else Purpose.PARTIAL
        return (purpose, self.due if purpose is Purpose.PARTIAL else self.since, self.since)


class Waiting:
    """The prefill queue: one update a session, the newest; a final gives way to a final alone.

    Iterating gives the most urgent first.
    """

    def __init__(self) -> None:
        self._updates: dict[str, Wanted] = {}
        self._places: dict[str, tuple[tuple[int, float, float], int]] = {}
        self._order: list[tuple[tuple[int, float, float], int, str]] = []
        self._came = 0

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Wanted]:
        return (self._updates[session] for _, _, session in self._order)

    @property
    def first(self) -> Wanted | None:
        """The most urgent."""
        return self._updates[self._order[0][2]] if self._order else None

    def put(self, wanted: Wanted) -> None:
        """Wait in the place of what the session wanted before, from when that began to wait."""
        session, before = wanted.session, self._updates.get(wanted.session)
        came = self._came = self._came + 1
        if before is not None:
            if before.purpose is Purpose.FINAL and wanted.purpose is not Purpose.FINAL:
                return
            wanted = replace(wanted, since=min(before.since, wanted.since))
            came = self._places[session][1]
            self.drop(session)
        self._updates[session] = wanted
        self._places[session] = place = (wanted.rank, came)
        insort(self._order, (*place, session))

    def drop(self, session: str) -> None:
        """It wants nothing any more; nothing where it did not wait."""
        if self._updates.pop(session, None) is not None:
            del self._order[bisect_left(self._order, (*self._places.pop(session), session))]


@dataclass
class Flight:
    """A batch on a lane: the updates that are not delivered yet, which step on.

    Nobody speaks into what is not `live`; a `recalled` one ends at the next look, undelivered. Its
    lane may be given another one where it is `ending`; where it is `cut` as well, it was, and what
    is left of `rows` at the next look goes on in another batch.
    """

    number: int
    began: float
    live: bool
    updates: dict[str, Wanted] = field(default_factory=dict)
    rows: int = 0
    recalled: bool = False
    ending: bool = False
    cut: bool = False

    @property
    def partial(self) -> bool:
        """Nothing in it but what may come later as well."""
        return all(each.rank[0] is Purpose.PARTIAL for each in self.updates.values())


class Stepping:
    """The decode queue: batches by their number."""

    def __init__(self) -> None:
        self._flights: dict[int, Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[Flight]:
        return iter(self._flights.values())

    @property
    def lanes(self) -> int:
        """Lanes that may not be given another batch yet."""
        return sum(not flight.ending for flight in self)

    def add(self, flight: Flight) -> None:
        self._flights[flight.number] = flight

    def get(self, number: int) -> Flight | None:
        return self._flights.get(number)

    def end(self, number: int) -> Flight | None:
        """The batch whose lane is free; None where it is not there any more."""
        return self._flights.pop(number, None)

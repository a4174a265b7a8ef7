"""What a scheduler is told and what it decides: the same journal gives the same decisions."""

from __future__ import annotations

import msgspec

from edge_runtime.decode.queues import Wanted


class Lanes(msgspec.Struct, frozen=True, tag=True):
    """From `at` on so many lanes may work, on batches of so many rows.

    Of the lanes, so many may be at `recordings`.
    """

    at: float
    lanes: int
    rows: int
    recordings: int


class Asked(msgspec.Struct, frozen=True, tag=True):
    """A session wants an update, in the place of whatever it wanted before."""

    at: float
    wanted: Wanted


class Withdrawn(msgspec.Struct, frozen=True, tag=True):
    """A session wants nothing any more; where it is `over`, its state goes as well."""

    at: float
    session: str
    over: bool = False


class Delivered(msgspec.Struct, frozen=True, tag=True):
    """A row of a batch is done, and with its session."""

    at: float
    batch: int
    session: str


class Freed(msgspec.Struct, frozen=True, tag=True):
    """The lane of a batch is free."""

    at: float
    batch: int


class Ending(msgspec.Struct, frozen=True, tag=True):
    """The lane of a batch will soon be free: it may be given the next one."""

    at: float
    batch: int


class Tick(msgspec.Struct, frozen=True, tag=True):
    """Time has passed; what to do now?"""

    at: float


Event = Lanes | Asked | Withdrawn | Delivered | Ending | Freed | Tick


class Batch(msgspec.Struct, frozen=True, tag=True):
    """Run the updates of these sessions together, the most urgent first.

    Of a model that keeps state, each in the slot of that number. What is left of the batch `cut` at
    its next look, on the lane that comes free for this one, is given back; 0 is none.
    """

    number: int
    sessions: tuple[str, ...]
    slots: tuple[int, ...] = ()
    cut: int = 0


class Recall(msgspec.Struct, frozen=True, tag=True):
    """End a batch of partials at its next look: a final needs its lane. They are due again."""

    number: int


class Wait(msgspec.Struct, frozen=True, tag=True):
    """More may come: ask again at `until` if nothing happens before."""

    until: float


Decision = Batch | Recall | Wait | None

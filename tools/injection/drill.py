"""Faults in batches beside witnesses whose texts must stay what they are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from injection.clients import FAULTS, Spoken
from injection.engine import KINDS
from injection.house import House, Left, finals_lost, text

MOST = 5
"""Sessions for each fault of the engine that is wanted."""

SEEN = 8
"""Faults for each witness."""

GROWN = 64 << 20
"""Resident bytes more than after the first batch that count as a leak."""


@dataclass
class Found:
    """What came of one kind."""

    kind: str
    count: int = 0
    met: int = 0
    """Faults of the engine that a session came to."""
    witnesses: int = 0
    problems: list[str] = field(default_factory=list)
    left: Left | None = None
    resident: list[tuple[int, int]] = field(default_factory=list)
    """Faults so far and resident bytes, after each batch."""

    def record(self) -> dict[str, Any]:
        known = asdict(self)
        del known["resident"]
        return {**known, "bytes_a_fault": slope(self.resident)}


async def spoken(house: House, clips: Sequence[tuple[str, bytes]]) -> list[Spoken]:
    """What each clip is written as, with nobody else there."""
    said = []
    for name, pcm in clips:
        events, _ = await house.say(pcm)
        said.append(Spoken(name, pcm, text(events)))
    return said


async def drill(
    house: House, kind: str, count: int, said: Sequence[Spoken], seed: str, together: int = 4
) -> Found:
    """So many faults of a kind, `together` at a time, each time beside witnesses.

    Those of the engine count once a session came to the update that fails.
    """
    found = Found(kind)
    first = await house.left()
    met = house.plan.met
    while (done := found.met if kind in KINDS else found.count) < count:
        if found.count > MOST * count + together:
            found.problems.append(f"only {found.met} of {found.count} sessions met the fault")
            break
        number = min(together, count - done)
        chances = [random.Random(f"{seed}.{kind}.{found.count + n}") for n in range(number)]
        work = [FAULTS[kind](house, chance.choice(said), chance) for chance in chances]
        seen_by = chances[: max(2, number // SEEN)]
        witnesses = [_witness(house, chance.choice(said)) for chance in seen_by]
        problems = await asyncio.gather(*work, *witnesses, return_exceptions=True)
        found.count += number
        found.witnesses += len(witnesses)
        found.problems += [
            each if isinstance(each, str) else repr(each) for each in problems if each
        ]
        found.met = house.plan.met - met
        left = await house.left()
        if left.sessions:
            found.problems.append(f"{left.sessions} sessions are left open")
        if found.left is None:
            first = replace(first, resident=left.resident)
        found.left = left
        found.resident.append((found.count, left.resident))
    if found.left is not None:
        found.problems += leaks(first, found.left)
    return found


def slope(points: Sequence[tuple[int, int]]) -> float | None:
    """Bytes a fault by least squares, from faults so far and resident bytes; None of too few."""
    if len(points) < 3:
        return None
    faults, resident = np.array(points, np.float64).T
    return float(np.polyfit(faults, resident, 1)[0])


def leaks(before: Left, after: Left) -> list[str]:
    """What there is more of, in words; a few more may be on their way out."""
    more = [
        f"{name}: {getattr(before, name)} before, {getattr(after, name)} after"
        for name, slack in (("tasks", 2), ("threads", 2), ("files", 4))
        if getattr(after, name) > getattr(before, name) + slack
    ]
    if after.resident > before.resident + GROWN:
        more.append(f"resident: {before.resident >> 20} MB before, {after.resident >> 20} after")
    return more


async def _witness(house: House, spoken: Spoken) -> str:
    events, code = await house.say(spoken.pcm)
    if code != 1000 or text(events) != spoken.text or finals_lost(events):
        return f"a witness got {text(events)!r} ({code}) for {spoken.text!r}"
    return ""

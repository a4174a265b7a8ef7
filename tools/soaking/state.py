"""What is kept between the parts of a soak, and what it says so far."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edge_runtime.errors import ConfigError

GROWTH = 1.1
"""The cost of a hop at the end may be so many times what it was at first."""

SLOPE = 1 << 20
"""Bytes of memory an hour of audio may grow by, once a part is warm."""

LEAST = 1.0
"""Hours of audio below which memory still warms up, and a ratio is noise."""

WARM = 3600.0
"""Seconds of audio of a part after which its memory is looked at: heaps and pools fill before."""

SPEECH = 0.1
"""The most of a sparse soak that is speech."""


@dataclass(frozen=True)
class Reading:
    """What a stretch of audio cost: `seconds` of it, `cpu` seconds; memory at its end.

    Lanes worked `busy` seconds on `hops` updates. Nearly all are finals: who sends faster than it
    is spoken has another one waiting before a partial would be due.
    Memory belongs to a process, so readings of one `part` are compared.
    """

    part: int
    seconds: float
    cpu: float
    busy: float
    hops: int
    resident: int
    took: float


@dataclass
class State:
    """One soak: its goal in seconds of audio, what it is made of, and all readings."""

    goal: float
    sparse: bool
    seed: str
    parts: int = 0
    sessions: int = 0
    refused: int = 0
    """Times that a server that was too busy let nobody new in."""
    spoken: float = 0.0
    """Seconds of clips among what was fed."""
    readings: list[Reading] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def fed(self) -> float:
        """Seconds of audio that the servers took in."""
        return sum(each.seconds for each in self.readings)

    @property
    def hop(self) -> float | None:
        """Processor time of the last hour of audio over that of the first, once they are two.

        All hours are made of the same sessions, so it tells what hops cost; and other work on the
        machine does not show in it, as it does in the `clock`.
        """
        return self._compared(work)

    @property
    def clock(self) -> float | None:
        """The same of what a hop takes by the clock."""
        return self._compared(cost)

    def _compared(self, of: Callable[[Sequence[Reading]], float | None]) -> float | None:
        first, last = _hour(self.readings), _hour(self.readings[::-1])
        if not first or len(first) + len(last) > len(self.readings):
            return None
        before, after = of(first), of(last)
        return after / before if before and after else None

    @property
    def slope(self) -> float | None:
        """Bytes an hour of audio, in the part where it is most; a part's start does not count."""
        slopes = []
        for part in range(1, self.parts + 1):
            mine = _warm([each for each in self.readings if each.part == part])
            hours = sum(each.seconds for each in mine[1:]) / 3600
            if hours >= LEAST:
                slopes.append((mine[-1].resident - mine[0].resident) / hours)
        return max(slopes, default=None)

    @property
    def wrong(self) -> list[str]:
        """What it did not reach, in words."""
        said = list(self.errors)
        if self.fed >= 2 * LEAST * 3600 and self.hop is not None and self.hop > GROWTH:
            said.append(f"a hop costs {self.hop:.3f} × what it did in the first hour")
        if self.slope is not None and self.slope > SLOPE:
            said.append(f"memory grows by {self.slope / 2**20:.2f} MB an hour of audio")
        return said

    def write(self, path: Path) -> None:
        """All of it and what it says, in place of what the file had."""
        summary: dict[str, Any] = {
            "hours": self.fed / 3600, "hop": self.hop, "clock": self.clock,
            "slope": self.slope, "wrong": self.wrong,
        }  # fmt: skip
        new = path.with_name(path.name + ".new")
        new.write_text(json.dumps({"summary": summary, **asdict(self)}, indent=1) + "\n", "utf-8")
        os.replace(new, path)  # noqa: PTH105 – says that it replaces

    @classmethod
    def read(cls, path: Path) -> State:
        """What `write` wrote. Raises `ConfigError`."""
        try:
            said = json.loads(path.read_text("utf-8"))
            del said["summary"]
            said["readings"] = [Reading(**each) for each in said["readings"]]
            return cls(**said)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(
                f"{path} is not the state of a soak: {error}", "Name another file, or delete it."
            ) from None


def cost(readings: Sequence[Reading]) -> float | None:
    """Seconds of a lane a hop."""
    hops = sum(each.hops for each in readings)
    return sum(each.busy for each in readings) / hops if hops else None


def work(readings: Sequence[Reading]) -> float | None:
    """Processor seconds a second of audio."""
    seconds = sum(each.seconds for each in readings)
    return sum(each.cpu for each in readings) / seconds if seconds else None


def _warm(readings: Sequence[Reading]) -> Sequence[Reading]:
    """Those of one part once so much has been fed."""
    fed = 0.0
    for number, each in enumerate(readings):
        fed += each.seconds
        if fed >= WARM:
            return readings[number:]
    return []


def _hour(readings: list[Reading]) -> list[Reading]:
    """As many from the beginning on as make an hour of audio, or a third of all where less."""
    total = sum(each.seconds for each in readings)
    taken: list[Reading] = []
    for each in readings:
        if sum(one.seconds for one in taken) >= min(3600.0, total / 3):
            break
        taken.append(each)
    return taken

"""How a runtime's lanes keep up with everybody who speaks, told in figures and to clients."""

from __future__ import annotations

import logging
import statistics
import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from edge_runtime.audio import RATE
from edge_runtime.config import Updating
from edge_runtime.decode.update import Hypothesis, Purpose
from edge_runtime.errors import ServerFull
from edge_runtime.events import Warning as WarningEvent
from edge_runtime.metrics import LoadMetrics
from edge_runtime.runtime.ladder import Ladder
from edge_runtime.runtime.stream import Stream

_log = logging.getLogger(__name__)

EVERY = 0.1
"""Seconds between two looks."""

ROUNDS = 9
"""Turns of the voice detector whose middle one tells how late it is."""


class Crowd:
    """A `Ladder` with a clock."""

    def __init__(self, updating: Updating, metrics: LoadMetrics) -> None:
        self._ladder = Ladder(updating.hop_ms / 1000, updating.hop_factor)
        self._metrics = metrics
        self._speakers = 0
        self._lanes = 1
        self._looked = time.monotonic()
        self._heard: dict[Stream, int] = {}
        self._rounds: deque[float] = deque(maxlen=ROUNDS)

    @property
    def hop(self) -> float:
        """Times as seldom as partials come."""
        return self._ladder.step.hop

    @property
    def about(self) -> dict[str, Any]:
        """For people: the step of the ladder, and how many lanes the speakers would fill."""
        asked = self._ladder.demand(time.monotonic(), 0, self._speakers)
        return {
            "level": self._ladder.level,
            "speakers": self._speakers,
            "lanes": self._lanes,
            "lanes_asked": round(asked, 2),
        }

    def spent(self, stream: Stream, hypothesis: Hypothesis) -> None:
        """A lane has worked for `stream`; recordings wait for those who speak, and do not count."""
        if stream.live:
            partial = hypothesis.update.purpose is Purpose.PARTIAL
            self._ladder.spent(time.monotonic(), hypothesis.cost.share, partial=partial)

    def judged(self, seconds: float) -> None:
        """The voice detector took so long for all whose audio was there, the wait included."""
        self._rounds.append(seconds)

    def look(self, streams: Iterable[Stream], lanes: int) -> list[WarningEvent]:
        """What everybody is told, if another step is in force from now on."""
        now = time.monotonic()
        if now - self._looked < EVERY:
            return []
        live = [each for each in streams if each.live]
        self._listened(now, live)
        self._speakers = sum(each.session.speaking for each in live)
        self._lanes = lanes
        ladder, before = self._ladder, self._ladder.level
        late = statistics.median(self._rounds) if self._speakers and self._rounds else 0.0
        changed = ladder.look(now, self._speakers, lanes, late)
        self._metrics.load(ladder.level, ladder.demand(now, 0, self._speakers))
        if not changed:
            return []
        harder = ladder.level > before
        self._metrics.changed("harder" if harder else "easier")
        said = ladder.step.said
        _log.log(
            logging.WARNING if harder else logging.INFO,
            "load step %d for %d speakers: %s",
            ladder.level,
            self._speakers,
            said,
        )
        return [WarningEvent(code="busy", message=said)]

    def _listened(self, now: float, live: list[Stream]) -> None:
        elapsed, self._looked = now - self._looked, now
        heard = {each: each.session.heard_samples for each in live}
        new = [(at - self._heard.get(each, 0)) / RATE for each, at in heard.items()]
        self._heard = heard
        self._ladder.heard(now, sum(new), sum(min(each, elapsed) for each in new))

    def admit(self) -> None:
        """Raises `ServerFull` where one more who speaks would cost the others their finals."""
        if not self._ladder.step.admits:
            raise ServerFull(
                f"the device is busy with {self._speakers} speakers",
                "Try again in a minute, or serve from a faster device.",
            )

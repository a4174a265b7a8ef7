"""What so many streams took of a server and of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edge_runtime.bench.scrape import Scrape

UPDATES = "edge_runtime_updates_total"
NAMES = ("partial", "speculative", "final")
TOKENS = "edge_runtime_tokens_total"
STAGES = ("encode", "draft", "decode")
SECONDS = "edge_runtime_stage_seconds"
_PASSES = "edge_runtime_passes_total"


@dataclass(frozen=True)
class Spent:
    """What so many streams took: `grown` are the server's figures, processor time is seconds.

    `server` and `clients` are that of all of them, in `seconds` by the clock; `finals` seconds from
    the end of speech to each, `rests` from the end of a clip to the next one.
    """

    streams: int
    seconds: float
    grown: Scrape
    server: float
    clients: float
    finals: tuple[float, ...] = ()
    rests: tuple[float, ...] = ()

    @property
    def lanes(self) -> float:
        """Seconds that lanes worked."""
        return busy(self.grown, *NAMES)[0]

    @property
    def steps(self) -> tuple[float, float]:
        """Seconds of passes behind the first of an update, and how many there were."""
        seconds = stages(self.grown, NAMES, "decode")
        passes = self.grown.value(_PASSES) or 0.0
        return seconds, passes - (self.grown.value(UPDATES) or 0.0)

    def record(self) -> dict[str, dict[str, float]]:
        """For a file: by purpose how many updates there were, and what they took."""
        return {
            name: {
                "count": self.grown.value(UPDATES, purpose=name) or 0.0,
                **{each: stages(self.grown, (name,), each) for each in STAGES},
                "passes": self.grown.value(_PASSES, purpose=name) or 0.0,
                "tokens": self.grown.value(TOKENS, purpose=name, kind="produced") or 0.0,
            }
            for name in NAMES
        }


def stages(grown: Scrape, purposes: Sequence[str], *which: str) -> float:
    """Seconds that these stages of such updates took."""
    return sum(
        grown.value(f"{SECONDS}_sum", purpose=purpose, stage=stage) or 0.0
        for purpose in purposes
        for stage in which
    )


def busy(grown: Scrape, *purposes: str) -> tuple[float, float]:
    """Seconds that lanes worked on updates of these purposes, and how many there were."""
    seconds = stages(grown, purposes, *STAGES)
    return seconds, sum(grown.value(UPDATES, purpose=purpose) or 0.0 for purpose in purposes)

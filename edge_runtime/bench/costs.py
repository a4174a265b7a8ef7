"""What one stream asks of the machine, measured while it was alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edge_runtime.bench.scrape import Scrape

_SECONDS = "edge_runtime_stage_seconds"
_UPDATES = "edge_runtime_updates_total"


@dataclass(frozen=True)
class Costs:
    """Seconds, but where said; `talks` are the lengths of speech, `pauses` what follows each.

    `closing` is what lanes work for the end of a turn: its final and the speculation on it.
    `beside` is processor time for a second of a stream that is not lanes' work: voice detector,
    sockets and, where they share the machine, the clients. `waits` are the latencies from end of
    speech to final, with nobody else there.
    """

    partial: float
    closing: float
    beside: float
    waits: tuple[float, ...]
    talks: tuple[float, ...]
    pauses: tuple[float, ...]
    lanes: int = 1
    cores: int = 1
    on_cpu: bool = True


def busy(grown: Scrape, *purposes: str) -> tuple[float, float]:
    """Seconds that lanes worked on updates of these purposes, and how many there were."""
    seconds = sum(
        grown.value(f"{_SECONDS}_sum", purpose=purpose, stage=stage) or 0.0
        for purpose in purposes
        for stage in ("encode", "draft", "decode")
    )
    return seconds, sum(grown.value(_UPDATES, purpose=purpose) or 0.0 for purpose in purposes)


def costs(
    grown: Scrape,
    cpu: float,
    waits: Sequence[float],
    talks: Sequence[float],
    pauses: Sequence[float],
) -> Costs:
    """From what the server's figures grew by with one stream, `cpu` seconds of it used.

    What lanes worked is taken off `cpu`: on a CPU it is the same time.
    """
    partials, count = busy(grown, "partial")
    closing, _ = busy(grown, "final", "speculative")
    audio = max(grown.value("edge_runtime_audio_seconds_total") or 0.0, 1e-9)
    turn = (sum(talks) + sum(pauses)) / max(1, len(talks))
    return Costs(
        partials / count if count else 0.0,
        closing / audio * turn,
        max(0.0, cpu - partials - closing) / audio,
        tuple(waits),
        tuple(talks),
        tuple(pauses),
    )

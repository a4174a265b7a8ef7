"""What came back while one clip was played, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from edge_runtime import events


@dataclass(frozen=True)
class Arrival:
    """An event, and the seconds since the clip's first sample was spoken."""

    at: float
    event: events.Event


@dataclass(frozen=True)
class Segment:
    """The partials of one segment in order, and its final if it came."""

    partials: tuple[tuple[float, events.Partial], ...]
    final: tuple[float, events.Final] | None


@dataclass(frozen=True)
class Take:
    """One clip, played once; `seconds` is its length, silence sent after it not counted."""

    clip: str
    seconds: float
    arrivals: tuple[Arrival, ...]
    cpu: float | None = None
    extra: dict[str, float] = field(default_factory=dict)

    @property
    def finals(self) -> list[tuple[float, events.Final]]:
        return [(a.at, a.event) for a in self.arrivals if isinstance(a.event, events.Final)]

    @property
    def partials(self) -> list[tuple[float, events.Partial]]:
        return [(a.at, a.event) for a in self.arrivals if isinstance(a.event, events.Partial)]

    @property
    def text(self) -> str:
        """The finals' texts, joined by spaces."""
        return " ".join(final.text.strip() for _, final in self.finals if final.text.strip())

    def segments(self) -> Iterator[Segment]:
        """In order of their numbers."""
        numbers = {event.segment for _, event in self.partials}
        for number in sorted(numbers | {event.segment for _, event in self.finals}):
            finals = [pair for pair in self.finals if pair[1].segment == number]
            yield Segment(
                tuple(pair for pair in self.partials if pair[1].segment == number),
                finals[0] if finals else None,
            )

    def log(self) -> list[bytes]:
        """One JSON object an event, without what differs from run to run: the session's name."""
        return [
            events.encode(a.event) for a in self.arrivals if not isinstance(a.event, events.Ready)
        ]

    def record(self) -> bytes:
        """The take as one line of JSON."""
        return msgspec.json.encode(
            {
                "clip": self.clip,
                "seconds": self.seconds,
                "arrivals": [{"at": round(a.at, 4), "event": a.event} for a in self.arrivals],
            }
        )

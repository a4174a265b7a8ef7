"""One stream of a rehearsal: the clip that it plays, its segments, and what it wants of lanes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from edge_runtime.bench.costs import PADDING, Work
from edge_runtime.bench.course import Course, heard
from edge_runtime.decode.update import Purpose


@dataclass(eq=False)
class Segment:
    """One that is open, or waits for its final; places are seconds of its clip.

    Its window begins at `start`, its speech at `spoken`; its newest text goes to `covered`, its
    newest guess to `guessed`. A partial is due each `hop` seconds. `paused` is where the window of
    a guess would end, `end` that of its final, `closed` when it was.
    """

    start: float
    spoken: float
    hop: float
    covered: float = 0.0
    paused: float | None = None
    guessed: float | None = None
    end: float | None = None
    closed: float = 0.0
    in_flight: bool = False

    @property
    def since(self) -> float:
        """From where on nothing was decoded."""
        return max(self.start, self.covered, self.spoken)

    def gap(self, end: float) -> float:
        """Seconds up to there in which something was said that the draft has not."""
        return max(0.0, end - max(self.covered, self.start + PADDING))


@dataclass(eq=False)
class Flight:
    """An update on a lane; `left` seconds of its work are to be done."""

    number: int
    purpose: Purpose
    segment: Segment
    end: float
    work: Work
    left: float
    began: float
    recalled: bool = False

    def recall(self, step: float) -> None:
        """It ends where a lane looks next: after its draft, or the step that it is at."""
        self.recalled = True
        done = self.work.whole - self.left
        self.left = min(self.left, max(self.work.early - done, step))


@dataclass(eq=False)
class Speaker:
    """It plays `course` since `began`; `clips` follow."""

    name: str
    clips: Iterator[Course]
    course: Course
    began: float = 0.0
    open: Segment | None = None
    pending: list[Segment] = field(default_factory=list)
    flight: Flight | None = None
    """Not that of a final: beside it another one may be."""
    asked: tuple[Purpose, float] | None = None
    wanted_at: float | None = None
    served_at: float = 0.0
    through: bool = False
    """The clip's last final is there."""

    def play(self, course: Course, now: float) -> None:
        """Another clip."""
        self.course, self.began, self.through = course, now, False
        self.open = self.flight = None

    def heard(self, now: float) -> float:
        """Seconds of its clip that are judged by now."""
        return heard(now - self.began)

    def wants(self, now: float, pace: float) -> tuple[Purpose, Segment, float] | None:
        """What, of which segment, up to where, with partials `pace` times as seldom."""
        for each in self.pending:
            if not each.in_flight:
                assert each.end is not None
                return Purpose.FINAL, each, each.end
        segment = self.open
        if segment is None or self.flight is not None or self.pending:
            return None
        if segment.paused is not None:
            new = segment.covered != segment.paused
            return (Purpose.SPECULATIVE, segment, segment.paused) if new else None
        at = self.heard(now)
        due = at - segment.since >= pace * segment.hop - 1e-6
        return (Purpose.PARTIAL, segment, at) if due else None

    def close(self, segment: Segment, end: float, now: float) -> bool:
        """The open segment ends there; whether a guess of that very window is its final already.

        One that is under way will be.
        """
        self.open = None
        segment.end, segment.closed = end, now
        self.pending.append(segment)
        flight = self.flight
        segment.in_flight = (
            flight is not None
            and (flight.purpose, flight.segment) == (Purpose.SPECULATIVE, segment)
            and flight.end == end
        )
        return segment.guessed == end

    def is_last(self, segment: Segment, tail: float) -> bool:
        """Whether nothing is said in the clip after it."""
        ends = [each.place for each in self.course.moments if each.what == "endpoint"]
        return not ends or segment.end == ends[-1] + tail

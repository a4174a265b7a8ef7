"""One segment of speech: its window of audio, its hypotheses, and where it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from edge_runtime.decode.merge import Merger
from edge_runtime.decode.update import Hypothesis
from edge_runtime.events import Event, Reason


@dataclass
class Segment:
    """State of one segment; positions are absolute samples.

    The window to decode begins at `start`; speech was first heard at `spoken`.
    `end` and `reason` are set when it closes. `draft` are the newest hypothesis'
    tokens, which covered the audio up to `covered`. `paused` is the window's end
    while speech pauses and `speculation` what was decoded for such a window; `shown`
    tells whether a partial was sent. `parts` are the hypotheses that the final is made of:
    one, or more where a model stopped before all was said; `concluded` when none will follow.
    """

    number: int
    turn: int
    start: int
    spoken: int
    merger: Merger
    draft: tuple[int, ...] = ()
    covered: int = 0
    shown: bool = False
    paused: int | None = None
    speculation: Hypothesis | None = None
    end: int | None = None
    last: int = 0
    reason: Reason = "endpoint"
    forced: bool = False
    alternative: str | None = None
    parts: list[Hypothesis] = field(default_factory=list)
    concluded: bool = False
    in_flight: bool = False
    failed: bool = False
    after: list[Event] = field(default_factory=list)

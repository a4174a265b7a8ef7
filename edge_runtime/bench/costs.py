"""What streams ask of the machine."""

from __future__ import annotations

from dataclasses import dataclass

from edge_runtime.decode.update import Purpose

PADDING = 0.2
"""Seconds at the head of a window in which nothing is said: the padding, less how late an onset is
heard."""

SLOWEST = 0.02
"""The least part of its speed that a lane is taken to have: below it nothing is held anyway."""


@dataclass(frozen=True)
class Work:
    """Seconds that an update keeps a lane: until its draft is checked, and in all."""

    early: float
    whole: float


@dataclass(frozen=True)
class Costs:
    """Seconds, but where said.

    An update takes `fixed`, `each` for a second of its window, and `square` for that by itself, as
    attention does, until its draft is checked; then a `step` for each token that the draft did not
    have: `tokens` a second of what was said since the stream's last update, and those that are said
    anew, `partial` of one in the middle of a word, `closing` of one in a pause. All of it takes
    that part longer (`together`) while other lanes are at work.

    `served` and `clients` are processor time for a second of a stream that is not lanes' work, of
    the server (voice detector, sockets) and of the clients on the same machine; both take `idle` of
    a second however few there are. A final needs `rest` to come about and to arrive besides what is
    rehearsed, a client `between` from one clip to the next.
    """

    fixed: float
    each: float
    square: float
    step: float
    tokens: float
    partial: float
    closing: float
    idle: float
    served: float
    clients: float
    together: float = 0.0
    rest: float = 0.0
    between: float = 0.0
    lanes: int = 1
    cores: int = 1
    on_cpu: bool = True

    def work(self, purpose: Purpose, window: float, gap: float) -> Work:
        """What an update takes of so many seconds of audio, of which `gap` came since the last."""
        redone = self.partial if purpose is Purpose.PARTIAL else self.closing
        early = self.fixed + self.each * window + self.square * window**2
        return Work(early, early + self.step * (redone + self.tokens * max(0.0, gap)))

    def left(self, streams: int) -> float:
        """Processors that so many leave to the lanes; on a GPU, lanes that they leave of these."""
        if self.on_cpu:
            rest = self.idle + streams * (self.served + self.clients)
            return max(SLOWEST * self.lanes, self.cores - rest)
        # The lanes' own part runs in the same interpreter as all that serves sockets.
        rest = self.idle + streams * self.served
        return self.lanes * max(SLOWEST, min(1.0, 1.0 - rest))

    def speed(self, working: int, left: float) -> float:
        """Of each of so many lanes that work, of what it has alone."""
        shared = min(1.0, left / working) if working else 1.0
        return shared / (1.0 + self.together) if working > 1 else shared

"""Clips, costs and streams for what is played in thought."""

from __future__ import annotations

import itertools

from edge_runtime.bench.costs import Costs
from edge_runtime.bench.course import Course, Moment
from edge_runtime.bench.met import Met
from edge_runtime.bench.rehearsal import Rehearsal
from edge_runtime.config import Config

COSTS = Costs(
    fixed=0.008, each=0.013, square=0.0003, step=0.009, tokens=4.0, partial=2.0, closing=0.5,
    idle=0.03, served=0.008, clients=0.002, together=0.08, between=0.03, lanes=2, cores=2,
)  # fmt: skip
"""About what two cores take for a small model in float32."""

QUIET = 0.5
"""Seconds of a clip before its speech."""


def turn(seconds: float, pauses: tuple[float, ...] = ()) -> Course:
    """A clip of so much speech, with a short pause after each of `pauses` seconds."""
    moments = [Moment(QUIET + 0.3, "onset", QUIET)]
    for each in pauses:
        moments.append(Moment(QUIET + each + 0.2, "silence", QUIET + each))
        moments.append(Moment(QUIET + each + 0.3, "resumed", QUIET + each + 0.25))
    close = QUIET + seconds
    moments += [Moment(close + 0.1, "silence", close), Moment(close + 0.4, "endpoint", close)]
    return Course(tuple(moments), close + 0.5, close, close + 0.8, close + 3.5)


SECONDS = 40.0

CLIPS = [turn(4.0, (1.5, 3.0)), turn(2.5), turn(7.0, (2.0, 5.0)), turn(5.0, (4.0,))]


def play(
    streams: int, costs: Costs = COSTS, clips: list[Course] = CLIPS, seconds: float = SECONDS
) -> Met:
    """So many streams, each with clips of its own order, until that second."""
    turns = [
        (0.73 * number % 6.0, itertools.cycle(clips[number % len(clips) :] + clips))
        for number in range(streams)
    ]
    return Rehearsal(costs, turns, Config()).run(5.0, seconds, seconds)

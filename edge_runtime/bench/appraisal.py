"""What streams ask of a machine, from what few of them took of it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edge_runtime.bench.costs import PADDING, Costs
from edge_runtime.bench.met import Met
from edge_runtime.bench.spent import NAMES, UPDATES, Spent, busy, stages
from edge_runtime.decode.update import Purpose

ROUNDS = 4
"""Times that costs are taken from what is rehearsed with the last ones: they settle in two."""

OFTEN = 0.1
"""Part of lanes' time side by side from which on it tells how they slow each other."""

_TOKENS = "edge_runtime_tokens_total"
_PARTIAL = (Purpose.PARTIAL,)
_CLOSING = (Purpose.SPECULATIVE, Purpose.FINAL)


def costs(
    spent: Sequence[Spent],
    rehearse: Callable[[Costs, Spent], Met],
    *,
    on_cpu: bool,
    lanes: int = 1,
    cores: int = 1,
) -> Costs:
    """From what one stream took, and from what several did.

    How long the windows of updates were, and how much of them was new, is what a rehearsal of the
    same says; it goes by the last costs found, until they agree. On a CPU lanes' time is taken off
    the processor's: it is the same.
    """
    served, idle = _line(spent, lambda each: _beside(each, on_cpu=on_cpu))
    clients, foot = _line(spent, lambda each: each.clients / each.seconds)
    every = [busy(each.grown, *NAMES) for each in spent]
    seconds, count = sum(taken for taken, _ in every), sum(many for _, many in every)
    decoded, steps = (sum(each.steps[at] for each in spent) for at in (0, 1))
    found = Costs(
        fixed=seconds / max(1.0, count), each=0.0, step=decoded / steps if steps > 0 else 0.0,
        tokens=0.0, partial=0.0, closing=0.0,
        idle=idle + (foot if on_cpu else 0.0), served=served, clients=clients,
        lanes=lanes, cores=cores, on_cpu=on_cpu,
    )  # fmt: skip
    for _ in range(ROUNDS):
        met = [rehearse(found, each) for each in spent]
        found = _updates(found, spent, met)
    found = _apart(found, spent, met)
    met = [rehearse(found, each) for each in spent]
    return replace(
        found,
        rest=_later([one.finals for one in spent], [one.finals for one in met]),
        between=max(0.0, _later([one.rests for one in spent], [one.rests for one in met])),
    )


def _apart(found: Costs, spent: Sequence[Spent], met: Sequence[Met]) -> Costs:
    """Costs of a lane alone, from those that were measured with others at work now and then."""
    slower = _slower(spent, met)
    busy = sum(each.busy for each in met)
    mean = 1.0 + (slower * sum(each.both for each in met) / busy if busy else 0.0)
    # What they share of the processors with the rest slows them anyway.
    shared = min(1.0, found.left(spent[-1].streams) / found.lanes)
    return replace(
        found,
        fixed=found.fixed / mean,
        each=found.each / mean,
        step=found.step / mean,
        together=max(0.0, (1.0 + slower) * shared - 1.0),
    )


def _slower(spent: Sequence[Spent], met: Sequence[Met]) -> float:
    """How much longer a step takes while other lanes work, from how often they do among several."""
    few, many = spent[0], spent[-1]
    shares = [each.both / each.busy if each.busy else 0.0 for each in met]
    more = shares[-1] - shares[0]
    if not few.step or more < OFTEN:
        return 0.0
    return max(0.0, many.step / few.step - 1.0) / more


def _later(met: Sequence[Sequence[float]], thought: Sequence[Sequence[float]]) -> float:
    """How much more the middle of what was met is than of what was thought."""
    values, others = ([value for each in one for value in each] for one in (met, thought))
    return statistics.median(values) - statistics.median(others) if values and others else 0.0


@dataclass(frozen=True)
class _Kind:
    """Updates of one kind, of so many streams: seconds and tokens of all, and what one was of."""

    count: float
    tokens: float
    early: float
    late: float
    window: float
    gap: float


def _kinds(one: Spent, met: Met, purposes: Sequence[Purpose]) -> list[_Kind]:
    """Nothing where none were decoded, or none are rehearsed."""
    names = [each.name.lower() for each in purposes]
    count = sum(one.grown.value(UPDATES, purpose=each) or 0.0 for each in names)
    rehearsed = sum(met.updates[each] for each in purposes)
    if not count or not rehearsed:
        return []
    return [
        _Kind(
            count,
            # The mark of their end is no token of what was said.
            sum(one.grown.value(_TOKENS, purpose=each, kind="produced") or 0.0 for each in names)
            - count,
            stages(one.grown, names, "encode", "draft"),
            stages(one.grown, names, "decode"),
            sum(met.windows[each] for each in purposes) / rehearsed,
            sum(met.gaps[each] for each in purposes) / rehearsed,
        )
    ]


def _updates(found: Costs, spent: Sequence[Spent], met: Sequence[Met]) -> Costs:
    """With what updates take, where such windows were met."""
    pairs = list(zip(spent, met, strict=True))
    partials = [each for one, thought in pairs for each in _kinds(one, thought, _PARTIAL)]
    closing = [each for one, thought in pairs for each in _kinds(one, thought, _CLOSING)]
    kinds = [*partials, *closing]
    # In the middle of a word there are tokens too many, which the next update takes back.
    said = sum(each.count * max(0.0, each.window - PADDING) for each in closing)
    rate = max(0.0, sum(each.tokens for each in closing) / said) if said else 0.0
    fixed, each = _rising([(one.window, one.early / one.count, one.count) for one in kinds])
    return replace(
        found,
        fixed=fixed,
        each=each,
        tokens=rate,
        partial=_redone(partials, found.step, rate),
        closing=_redone(closing, found.step, rate),
    )


def _redone(kinds: Sequence[_Kind], step: float, rate: float) -> float:
    """Steps of one update besides those for what is new."""
    count = sum(each.count for each in kinds)
    if not count or not step:
        return 0.0
    steps = sum(each.late for each in kinds) / step
    return max(0.0, (steps - rate * sum(each.count * each.gap for each in kinds)) / count)


def _rising(points: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Foot and rise of the line through points (x, y, weight) of which neither is negative."""
    if not points:
        return 0.0, 0.0
    x, y, weight = np.array(points).T
    middle, mean = np.average(x, weights=weight), np.average(y, weights=weight)
    spread = np.average((x - middle) ** 2, weights=weight)
    slope = np.average((x - middle) * (y - mean), weights=weight) / spread if spread > 0 else 0.0
    rise = float(min(max(slope, 0.0), mean / middle))
    return float(mean - rise * middle), rise


def _beside(spent: Spent, *, on_cpu: bool) -> float:
    """Processors of the server that are not lanes'."""
    lanes = spent.lanes if on_cpu else 0.0
    return max(0.0, spent.server - lanes) / spent.seconds


def _line(spent: Sequence[Spent], value: Callable[[Spent], float]) -> tuple[float, float]:
    """Rise and foot of the line by streams; from the origin where there is but one point, or it
    falls."""
    few, many = spent[0].streams, spent[-1].streams
    at_few, at_many = value(spent[0]), value(spent[-1])
    if many == few or at_many <= at_few:
        return at_many / many, 0.0
    rise = min((at_many - at_few) / (many - few), at_many / many)
    return rise, at_many - rise * many

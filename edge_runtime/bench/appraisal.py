"""What streams ask of a machine, from what few of them took of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edge_runtime.bench.costs import PADDING, Costs
from edge_runtime.bench.met import Met
from edge_runtime.bench.percentile import percentile
from edge_runtime.bench.spent import NAMES, SECONDS, TOKENS, UPDATES, Spent, busy, stages
from edge_runtime.decode.update import Purpose

ROUNDS = 4
"""Times that costs are taken from what is rehearsed with the last ones: they settle in two."""

OFTEN = 0.1
"""Part of lanes' time side by side from which on it tells how they slow each other."""

INSIDE = 0.03
"""Part of a histogram that lies on either side of an edge that is believed."""

_POWERS = (0, 1, 2)
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
        fixed=seconds / max(1.0, count), each=0.0, square=0.0,
        step=decoded / steps if steps > 0 else 0.0, tokens=0.0, partial=0.0, closing=0.0,
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
        # What holds is told by that percentile: the latest are what has to be right.
        rest=_later([one.finals for one in spent], [one.finals for one in met], 95),
        between=max(0.0, _later([one.rests for one in spent], [one.rests for one in met], 50)),
    )


def _apart(found: Costs, spent: Sequence[Spent], met: Sequence[Met]) -> Costs:
    """Costs of a lane alone, from those that were measured with others at work now and then."""
    slower = _slower(found, spent, met)
    busy = sum(each.busy for each in met)
    mean = 1.0 + (slower * sum(each.both for each in met) / busy if busy else 0.0)
    # What they share of the processors with the rest slows them anyway.
    shared = min(1.0, found.left(spent[-1].streams) / found.lanes)
    return replace(
        found,
        fixed=found.fixed / mean,
        each=found.each / mean,
        square=found.square / mean,
        step=found.step / mean,
        together=max(0.0, (1.0 + slower) * shared - 1.0),
    )


def _slower(found: Costs, spent: Sequence[Spent], met: Sequence[Met]) -> float:
    """How much longer updates take while other lanes work, from how often they do among several.

    The line through what they took of what all cost on average, by that part of lanes' time.
    """
    shares = [each.both / each.busy if each.busy else 0.0 for each in met]
    points = []
    for share, one, thought in zip(shares, spent, met, strict=True):
        measured, likely = one.lanes, _likely(found, one, thought)
        if likely > 0:
            points.append((share, measured / likely, measured))
    if max(shares) - min(shares) < OFTEN or len(points) < len(shares):
        return 0.0
    foot, rise = _rising(points)
    return rise / foot if foot > 0 else 0.0


def _likely(found: Costs, one: Spent, met: Met) -> float:
    """Seconds of lanes for as many updates as there were, each as those that are rehearsed."""
    seconds = 0.0
    for purposes in (_PARTIAL, _CLOSING):
        for kind in _kinds(one, met, purposes):
            seconds += kind.count * (
                sum(found.work(purposes[0], window, kind.gap).whole for window in kind.windows)
                / len(kind.windows)
            )
    return seconds


def _later(met: Sequence[Sequence[float]], thought: Sequence[Sequence[float]], q: float) -> float:
    """How much more that percentile of what was met is than of what was thought."""
    late, likely = (
        percentile([value for each in one for value in each], q) for one in (met, thought)
    )
    return 0.0 if late is None or likely is None else late - likely


@dataclass(frozen=True)
class _Kind:
    """Updates of one kind, of so many streams: seconds and tokens of all, and what one was of."""

    count: float
    tokens: float
    encode: float
    draft: float
    late: float
    windows: tuple[float, ...]
    gap: float
    edges: tuple[tuple[float, float], ...]
    """Seconds, and how many were encoded in no more."""

    @property
    def window(self) -> float:
        """Seconds of the mean one."""
        return sum(self.windows) / len(self.windows)


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
            sum(one.grown.value(TOKENS, purpose=each, kind="produced") or 0.0 for each in names)
            - count,
            stages(one.grown, names, "encode"),
            stages(one.grown, names, "draft"),
            stages(one.grown, names, "decode"),
            tuple(sorted(each for purpose in purposes for each in met.windows[purpose])),
            sum(met.gaps[each] for each in purposes) / rehearsed,
            _edges(one, names),
        )
    ]


def _edges(one: Spent, names: Sequence[str]) -> tuple[tuple[float, float], ...]:
    below: dict[float, float] = {}
    for each in names:
        for edge, count in one.grown.below(SECONDS, purpose=each, stage="encode"):
            below[edge] = below.get(edge, 0.0) + count
    return tuple(below.items())


def _updates(found: Costs, spent: Sequence[Spent], met: Sequence[Met]) -> Costs:
    """With what updates take, where such windows were met."""
    pairs = list(zip(spent, met, strict=True))
    partials = [each for one, thought in pairs for each in _kinds(one, thought, _PARTIAL)]
    closing = [each for one, thought in pairs for each in _kinds(one, thought, _CLOSING)]
    kinds = [*partials, *closing]
    # In the middle of a word there are tokens too many, which the next update takes back.
    said = sum(each.count * max(0.0, each.window - PADDING) for each in closing)
    rate = max(0.0, sum(each.tokens for each in closing) / said) if said else 0.0
    foot, rise = _rising([(one.window, one.draft / one.count, one.count) for one in kinds])
    fixed, each, square = _encoding(kinds)
    return replace(
        found,
        fixed=foot + fixed,
        each=rise + each,
        square=square,
        tokens=rate,
        partial=_redone(partials, found.step, rate),
        closing=_redone(closing, found.step, rate),
    )


def _encoding(kinds: Sequence[_Kind]) -> tuple[float, float, float]:
    """What it takes to encode windows: fixed, for a second, and for its square.

    The longest take longest: as many as lie below an edge of the histogram are the shortest that
    are rehearsed, which gives a point of the curve. It is then as high as the mean is.
    """
    points = []
    for kind in kinds:
        total = max((count for _, count in kind.edges), default=0.0)
        for edge, count in kind.edges:
            part = count / total if total else 0.0
            if min(part, 1.0 - part) >= INSIDE and len(kind.windows) > 1:
                place = min(max(1, round(part * len(kind.windows))), len(kind.windows) - 1)
                window = sum(kind.windows[place - 1 : place + 1]) / 2  # between the two
                points.append((window, edge, kind.count * min(part, 1.0 - part)))
    if len({window for window, _, _ in points}) < len(_POWERS):
        return (*_rising([(one.window, one.encode / one.count, one.count) for one in kinds]), 0.0)
    curve = _curve(points)
    likely = sum(
        one.count * sum(_at(curve, window) for window in one.windows) / len(one.windows)
        for one in kinds
    )
    height = sum(one.encode for one in kinds) / likely if likely else 1.0
    fixed, each, square = (height * part for part in curve)
    return fixed, each, square


def _curve(points: Sequence[tuple[float, float, float]]) -> tuple[float, ...]:
    """The polynomial nearest to points (x, y, weight) that falls nowhere."""
    x, y, weight = np.array(points).T
    root = np.sqrt(weight)
    best, least = (0.0,) * len(_POWERS), float("inf")
    for count in range(1, len(_POWERS) + 1):
        for powers in itertools.combinations(_POWERS, count):
            columns = np.stack([x**power for power in powers], 1)
            parts, *_ = np.linalg.lstsq(columns * root[:, None], y * root, rcond=None)
            off = float(((columns @ parts - y) ** 2 * weight).sum())
            if (parts >= 0).all() and off < least:
                found = dict(zip(powers, parts.tolist(), strict=True))
                best, least = tuple(found.get(power, 0.0) for power in _POWERS), off
    return best


def _at(curve: Sequence[float], x: float) -> float:
    return sum(part * x**power for power, part in zip(_POWERS, curve, strict=True))


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

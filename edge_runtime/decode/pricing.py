"""Measures on a warm lane what batches cost, or reads what was measured there before."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from edge_runtime.decode import costs
from edge_runtime.decode.costs import Cost, Costs
from edge_runtime.decode.lane import Lane
from edge_runtime.decode.passes import Pass

_log = logging.getLogger(__name__)

SECONDS = (2.0, 6.0, 12.0)
"""Audio that is timed; the longest that fits where that is less."""

SPOKEN = 3.0
"""Tokens a second of a typical draft."""

REPEATS = 3


def price(lane: Lane) -> Costs:
    """The table of a lane that nothing else runs beside; empty where a batch saves nothing.

    It is kept beside the plans for the next start.
    """
    chain, size = lane.chain, lane.size
    if size.rows == 1 or not chain.device.batches or not lane.buckets.row_sizes:
        return Costs()
    of = f"{chain.device.name}, {size.rows} rows of {size.samples} samples, {size.whole} in all"
    found = costs.load(chain.folder, of)
    if found is None:
        found = Costs(of, tuple(_measured(lane)))
        costs.save(found, chain.folder)
    for each in found.table:
        _log.info("%d rows of %d samples: %.2f ms", each.rows, each.samples, 1e3 * each.update)
    return found


def _measured(lane: Lane) -> list[Cost]:
    rate, found = lane.chain.shape.rate, []
    for rows in lane.buckets.row_sizes:
        fitting = [each for each in lane.buckets.sample_sizes if lane.size.fits(rows, each)]
        wanted = [lane.buckets.samples(int(seconds * rate)) for seconds in SECONDS]
        lengths = sorted({min(each, fitting[-1]) for each in wanted}) if fitting else []
        found += [cost(lane, rows, samples) for samples in lengths]
    return found


def cost(
    lane: Lane, rows: int, samples: int, *, tiled: bool = False, repeats: int = REPEATS
) -> Cost:
    """Of a batch of noise: the least of some runs after the first, by the device's clock.

    `tiled` as in `Pass`.
    """
    shape = lane.chain.shape
    random = np.random.default_rng(0)
    lane.length.host.host[:rows] = samples
    for row in range(rows):
        lane.stage(row, [random.normal(0, 0.1, samples).astype(np.float32)], samples)
    frames = shape.frames(samples)
    queries = lane.buckets.queries(min(int(SPOKEN * samples / shape.rate) + 1, shape.longest))
    check = Pass(rows, queries, frames, tiled=tiled)
    step = Pass(rows, 1, frames, 1, lane.chains[0], tiled=tiled)
    for each, position in ((check, 0), (step, queries)):
        lane.tokens(each)[...] = 3 % shape.vocabulary
        lane.positions(each)[...] = position
    parts = (
        _seconds(lane, lambda: lane.encode(rows, samples, tiled), repeats),
        _seconds(lane, lambda: lane.decode(check), repeats),
        _seconds(lane, lambda: lane.decode(step), repeats) / step.steps,
    )
    return Cost(rows, samples, *parts)


def _seconds(lane: Lane, run: Callable[[], None], repeats: int) -> float:
    run()
    marks = [lane.stream.mark()]
    for _ in range(repeats):
        run()
        marks.append(lane.stream.mark())
    lane.stream.synchronize()
    return min(after.since(before) for before, after in pairwise(marks))

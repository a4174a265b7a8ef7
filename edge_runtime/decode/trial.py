"""Which way passes take through the decoder: the tiles, or the device's own kernels for it all."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.passes import Pass

if TYPE_CHECKING:
    from edge_runtime.decode.lane import Lane

_log = logging.getLogger(__name__)

SECONDS = 8.0
"""Audio that both are tried on."""
TOKENS = 8
"""At how many single tokens, one after the other, they are compared."""
REPEATS = 20

Answers = dict[str, NDArray[np.float64]]


def through_tiles(lane: Lane) -> frozenset[int]:
    """The sizes of passes (queries) that go through the tiles, where kernels are there too.

    Each size is run both ways on noise. Where the kernels do not answer as the tiles do, the
    log says how, and all sizes go through the tiles; where they take longer, that size does.
    """
    sizes = lane.buckets.query_sizes
    samples = lane.buckets.samples(min(int(SECONDS * lane.chain.shape.rate), lane.size.samples))
    noise = np.random.default_rng(0).normal(0, 0.1, samples).astype(np.float32)
    lane.stage(0, [noise], samples)
    lane.length.host.host[0] = samples
    lane.encode(1, samples)
    shape = Pass(1, 1, lane.chain.shape.frames(samples))
    said = [lane.chain.shape.begin]
    for place in range(TOKENS):
        here = replace(shape, turn=place % 2)
        wanted = _answers(lane, replace(here, tiled=True), said[-1:], place)
        if not _same(wanted, _answers(lane, here, said[-1:], place), lane.chain.dtype.itemsize):
            return frozenset(sizes)
        said.append(int(wanted["next_token"][0]))
    slower = set()
    for queries in sizes:
        tokens = (said * queries)[:queries]
        own = replace(shape, queries=queries)
        tiled = replace(own, tiled=True)
        wanted, given = _answers(lane, tiled, tokens, 0), _answers(lane, own, tokens, 0)
        if not _same(wanted, given, lane.chain.dtype.itemsize):
            return frozenset(sizes)
        times = _seconds(lane, tiled), _seconds(lane, own)
        _log.info("a pass of %d: %.3f ms through the tiles, %.3f ms in kernels",
                  queries, *(1e3 * each for each in times))  # fmt: skip
        if times[0] < times[1]:
            slower.add(queries)
    return frozenset(slower)


def _answers(lane: Lane, shape: Pass, tokens: list[int], place: int) -> Answers:
    lane.tokens(shape)[...] = tokens
    lane.positions(shape)[...] = place
    lane.decode(shape)
    lane.stream.synchronize()
    return {name: rows[0].astype(np.float64) for name, rows in lane.answers(shape).items()}


def _same(wanted: Answers, given: Answers, itemsize: int) -> bool:
    """Whether two answers differ by no more than rounding in that floating type may cause."""
    near, share = (0.01, 0.001) if itemsize == 4 else (0.2, 0.05)
    allowed = {name: near + share * np.abs(wanted[name]) for name in ("logprob", "margin")}
    good = [np.abs(wanted[name] - given[name]) <= allowed[name] for name in allowed]
    good.append((wanted["next_token"] == given["next_token"]) | (wanted["margin"] <= near))
    if all(each.all() for each in good):
        return True
    at = int(np.argmin(np.all(good, axis=0)))
    told = [{name: float(rows[at]) for name, rows in each.items()} for each in (wanted, given)]
    _log.error(
        "kernels for the decoder are not used: at token %d of %d the tiles say %s, they say %s",
        at, len(good[0]), *told,
    )  # fmt: skip
    return False


def _seconds(lane: Lane, shape: Pass) -> float:
    began = lane.stream.mark()
    for _ in range(REPEATS):
        lane.decode(shape)
    ended = lane.stream.mark()
    lane.stream.synchronize()
    return ended.since(began) / REPEATS

"""Which way audio and passes take: through the tiles, or the device's own kernels."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.passes import Pass, Tiled

if TYPE_CHECKING:
    from edge_runtime.decode.lane import Lane

_log = logging.getLogger(__name__)

SECONDS = 8.0
"""Audio that both are tried on."""
TOKENS = 8
"""At how many single tokens, one after the other, they are compared."""
REPEATS = 20

Answers = dict[str, NDArray[np.float64]]


def through_tiles(lane: Lane) -> Tiled:
    """What goes through the tiles, where kernels are there too.

    Each size is run both ways on noise. Where the kernels do not answer as the tiles do, the
    log says how, and all sizes go through the tiles; where they take longer, that size does.
    """
    samples = lane.buckets.samples(min(int(SECONDS * lane.chain.shape.rate), lane.size.samples))
    _hear(lane, samples)
    lane.encode(1, samples, tiled=True)
    shape = Pass(1, 1, lane.chain.shape.frames(samples), tiled=True)
    said, answers = [lane.chain.shape.begin], []
    for place in range(TOKENS):
        answers.append(_answers(lane, replace(shape, turn=place % 2), said[-1:], place))
        said.append(int(answers[-1]["next_token"][0]))
    return Tiled(_queries(lane, shape, said, answers), _samples(lane, shape, said, samples))


def _hear(lane: Lane, samples: int) -> None:
    """Stage noise, the last eighth of it padding."""
    noise = np.random.default_rng(0).normal(0, 0.1, samples * 7 // 8).astype(np.float32)
    lane.stage(0, [noise], samples)
    lane.length.host.host[0] = noise.size


def _queries(lane: Lane, tiled: Pass, said: list[int], answers: list[Answers]) -> frozenset[int]:
    """The sizes of passes for the tiles; `answers` they gave to each of the tokens that `said`."""
    sizes, itemsize = lane.buckets.query_sizes, lane.chain.dtype.itemsize
    if lane.chain.own_decoder is None:
        return frozenset(sizes)
    own = replace(tiled, tiled=False)
    for place, wanted in enumerate(answers):
        given = _answers(lane, replace(own, turn=place % 2), said[place : place + 1], place)
        if not _same("decoder", wanted, given, itemsize):
            return frozenset(sizes)
    slower = set()
    for queries in sizes:
        tokens = (said * queries)[:queries]
        ways = [replace(each, queries=queries) for each in (tiled, own)]
        wanted, given = (_answers(lane, each, tokens, 0) for each in ways)
        if not _same("decoder", wanted, given, itemsize):
            return frozenset(sizes)
        tiles, kernels = (_seconds(lane, partial(lane.decode, each)) for each in ways)
        _say(f"a pass of {queries}", tiles, kernels)
        if tiles < kernels:
            slower.add(queries)
    return frozenset(slower)


def _samples(lane: Lane, tiled: Pass, said: list[int], samples: int) -> frozenset[int]:
    """The sizes of audio for the tile: `samples` were encoded, and are in the lane's memory."""
    sizes = lane.buckets.sample_sizes
    if lane.chain.own_encoder is None:
        return frozenset(sizes)
    queries = lane.buckets.queries(len(said))
    shape, tokens = replace(tiled, queries=queries), (said * queries)[:queries]
    wanted = _answers(lane, shape, tokens, 0)
    lane.encode(1, samples)
    given = _answers(lane, shape, tokens, 0)
    if not _same("encoder", wanted, given, lane.chain.dtype.itemsize):
        return frozenset(sizes)
    slower = set()
    for size in sizes:
        _hear(lane, size)
        tiles, kernels = (
            _seconds(lane, partial(lane.encode, 1, size, way)) for way in (True, False)
        )
        _say(f"to encode {size / lane.chain.shape.rate:.1f} s", tiles, kernels)
        if tiles < kernels:
            slower.add(size)
    return frozenset(slower)


def _say(what: str, tiles: float, kernels: float) -> None:
    _log.info("%s: %.3f ms through the tiles, %.3f ms in kernels", what, 1e3 * tiles, 1e3 * kernels)


def _answers(lane: Lane, shape: Pass, tokens: list[int], place: int) -> Answers:
    lane.tokens(shape)[...] = tokens
    lane.positions(shape)[...] = place
    lane.decode(shape)
    lane.stream.synchronize()
    return {name: rows[0].astype(np.float64) for name, rows in lane.answers(shape).items()}


def _same(part: str, wanted: Answers, given: Answers, itemsize: int) -> bool:
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
        "kernels for the %s are not used: at token %d of %d the tiles say %s, they say %s",
        part, at, len(good[0]), *told,
    )  # fmt: skip
    return False


def _seconds(lane: Lane, run: Callable[[], None]) -> float:
    """Of the device, for one of several runs after the first."""
    run()
    began = lane.stream.mark()
    for _ in range(REPEATS):
        run()
    ended = lane.stream.mark()
    lane.stream.synchronize()
    return ended.since(began) / REPEATS

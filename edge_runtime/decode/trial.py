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

    Each size is run both ways on noise, and a full batch of the smallest. Where the kernels do
    not answer as the tiles do, the log says how, and all sizes go through the tiles; where they
    take longer, that size does.
    """
    samples = lane.buckets.samples(min(int(SECONDS * lane.chain.shape.rate), lane.size.samples))
    _hear(lane, 1, samples)
    lane.encode(1, samples, tiled=True)
    shape = Pass(1, 1, lane.chain.shape.frames(samples), tiled=True)
    said, answers = [lane.chain.shape.begin], []
    for place in range(TOKENS):
        answers.append(_answers(lane, replace(shape, turn=place % 2), said[-1:], place))
        said.append(int(answers[-1]["next_token"][0]))
    return Tiled(_queries(lane, shape, said, answers), _samples(lane, said))


def _hear(lane: Lane, rows: int, samples: int) -> None:
    """Stage noise in every row, of each a little more of the end being padding."""
    random = np.random.default_rng(0)
    for row in range(rows):
        length = samples * 7 // 8 - row * samples // (4 * rows)
        length = max(length, lane.chain.shape.shortest)
        lane.stage(row, [random.normal(0, 0.1, length).astype(np.float32)], samples)
        lane.length.host.host[row] = length


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
        ways = [replace(each, queries=queries) for each in (tiled, own)]
        wanted, given = (_answers(lane, each, said, 0) for each in ways)
        if not _same("decoder", wanted, given, itemsize):
            return frozenset(sizes)
        tiles, kernels = (_seconds(lane, partial(lane.decode, each)) for each in ways)
        _say(f"a pass of {queries}", tiles, kernels)
        if tiles < kernels:
            slower.add(queries)
    batch = _heard(lane, lane.size.rows, lane.buckets.sample_sizes[0], said)
    wanted, given = (_answers(lane, replace(batch, tiled=way), said, 0) for way in (True, False))
    return frozenset(slower if _same("decoder", wanted, given, itemsize) else sizes)


def _samples(lane: Lane, said: list[int]) -> frozenset[int]:
    """The sizes of audio for the tile."""
    sizes, itemsize = lane.buckets.sample_sizes, lane.chain.dtype.itemsize
    if lane.chain.own_encoder is None:
        return frozenset(sizes)
    for rows, size in dict.fromkeys([(lane.size.rows, sizes[0]), *((1, size) for size in sizes)]):
        shape = _heard(lane, rows, size, said)
        wanted = _answers(lane, shape, said, 0)
        lane.encode(rows, size)
        if not _same("encoder", wanted, _answers(lane, shape, said, 0), itemsize):
            return frozenset(sizes)
    slower = set()
    for size in sizes:
        _hear(lane, 1, size)
        tiles, kernels = (
            _seconds(lane, partial(lane.encode, 1, size, way)) for way in (True, False)
        )
        _say(f"to encode {size / lane.chain.shape.rate:.1f} s", tiles, kernels)
        if tiles < kernels:
            slower.add(size)
    return frozenset(slower)


def _heard(lane: Lane, rows: int, samples: int, said: list[int]) -> Pass:
    """A pass through the tiles that takes all that was `said`, over rows the tile encoded now."""
    _hear(lane, rows, samples)
    lane.encode(rows, samples, tiled=True)
    queries = lane.buckets.queries(len(said))
    return Pass(rows, queries, lane.chain.shape.frames(samples), tiled=True)


def _say(what: str, tiles: float, kernels: float) -> None:
    _log.info("%s: %.3f ms through the tiles, %.3f ms in kernels", what, 1e3 * tiles, 1e3 * kernels)


def _answers(lane: Lane, shape: Pass, tokens: list[int], place: int) -> Answers:
    """What a pass says, (rows · queries); each row is fed `tokens`, over and over."""
    lane.tokens(shape)[...] = (tokens * shape.queries)[: shape.queries]
    lane.positions(shape)[...] = place
    lane.decode(shape)
    lane.stream.synchronize()
    answers = lane.answers(shape)
    return {name: rows.ravel().astype(np.float64) for name, rows in answers.items()}


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

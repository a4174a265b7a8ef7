"""Whether the fast way through the decoder says what the slow one says, before it is used."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from edge_runtime.decode.passes import Pass

if TYPE_CHECKING:
    from edge_runtime.decode.lane import Lane

_log = logging.getLogger(__name__)

TOKENS = 8
"""At how many tokens they are compared."""


def steps_agree(lane: Lane) -> bool:
    """Whether the device's whole steps answer as the tiles do, on two seconds of noise.

    Where they do not, the log says what the difference is.
    """
    samples = lane.buckets.samples(2 * lane.chain.shape.rate)
    noise = np.random.default_rng(0).normal(0, 0.1, samples).astype(np.float32)
    lane.stage(0, [noise], samples)
    lane.length.host.host[0] = samples
    lane.encode(1, samples)
    shape = Pass(1, 1, lane.chain.shape.frames(samples))
    token = lane.chain.shape.begin
    for place in range(TOKENS):
        turn = place % 2
        wanted = _answers(lane, replace(shape, turn=turn, tiled=True), token, place)
        given = _answers(lane, replace(shape, turn=turn), token, place)
        if not _agree(wanted, given, lane.chain.dtype.itemsize):
            _log.error(
                "whole steps are not used: at token %d the tiles say %s, they say %s",
                place, wanted, given,
            )  # fmt: skip
            return False
        token = int(wanted["next_token"])
    return True


def _answers(lane: Lane, shape: Pass, token: int, place: int) -> dict[str, float]:
    lane.tokens(1, 1)[...] = token
    lane.positions(shape.turn, 1)[...] = place
    lane.decode(shape)
    lane.stream.synchronize()
    return {name: float(rows[0, 0]) for name, rows in lane.answers(shape).items()}


def _agree(wanted: Mapping[str, float], given: Mapping[str, float], itemsize: int) -> bool:
    """Whether two answers differ by no more than rounding in that floating type may cause."""
    near = 1e-3 if itemsize == 4 else 0.1
    if any(not abs(wanted[name] - given[name]) <= near for name in ("logprob", "margin")):
        return False
    return wanted["next_token"] == given["next_token"] or wanted["margin"] <= near

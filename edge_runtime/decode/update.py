"""What a session asks of the device, and what comes back."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edge_runtime.decode.prompt import TRANSCRIBE


class Purpose(enum.IntEnum):
    """Why a segment is decoded; lower goes first."""

    FINAL = 0
    SPECULATIVE = 1
    PARTIAL = 2


@dataclass(frozen=True)
class Update:
    """Decode the samples [start, end) of a session's audio (16 kHz, absolute indices).

    `draft` is the guess to check (text tokens, no marks); `forced` is a prefix
    that the text must begin with. `align` asks for attention rows (word times).
    `limit` is the most text tokens the decode may produce.

    A multilingual model is told the `language`, or is asked which one it hears where that is
    empty: `guess` is the likeliest then, and stays where it hears another than `languages` (empty:
    any). `task` is what it makes of it.

    A model that hears each sound once finds its state of the segment in the `slot` of that number,
    as far as it still is there; without one, in what the lane has for itself.
    """

    session: str
    segment: int
    purpose: Purpose
    start: int
    end: int
    draft: tuple[int, ...] = ()
    forced: tuple[int, ...] = ()
    align: bool = False
    limit: int = 112
    language: str = ""
    guess: str = ""
    languages: tuple[str, ...] = ()
    task: str = TRANSCRIBE
    slot: int | None = None


SPARE = 6
"""Tokens of an update beyond those that are likely."""


def limit(likely: float) -> int:
    """The most text tokens of an update of which so many are likely at most."""
    return int(likely) + SPARE


@dataclass(frozen=True)
class Cost:
    """Where an update's time went (seconds), and how its tokens came about.

    `drafted` tokens were offered, `accepted` of them agreed; `passes` decoder
    passes gave `produced` tokens (end mark included), each pass's own next
    token among them; `steps` of the passes fed a single token. The host waited
    for the device `waits` times. It worked on `rows` updates at once, and each has the
    time that all of them took.
    """

    queue: float = 0.0
    encode: float = 0.0
    draft: float = 0.0
    decode: float = 0.0
    drafted: int = 0
    accepted: int = 0
    bonus: int = 0
    produced: int = 0
    passes: int = 0
    steps: int = 0
    waits: int = 0
    rows: int = 1

    @property
    def busy(self) -> float:
        """Seconds the device worked on it, and on what else was in its batch."""
        return self.encode + self.draft + self.decode

    @property
    def share(self) -> float:
        """Its part of that."""
        return self.busy / self.rows


@dataclass(frozen=True)
class Hypothesis:
    """The greedy text of an update's audio.

    `tokens` are text tokens without begin and end marks; `logprobs`, `margins`
    (best minus second logit) and `frames` (encoder frame where attention peaks)
    belong to them one by one. `ended` tells whether the end mark was reached.
    `align` is (tokens, frames) float32 attention, when asked for; `frame_count`
    is the number of encoder frames that hold audio. Only with audio up to sample `next_at` would
    another update hear more, where a model takes audio by the chunk. `language` is what a
    multilingual model was told or heard, `silence` the log-probability of nothing being said,
    where a model tells.
    """

    update: Update
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    margins: tuple[float, ...]
    frames: tuple[int, ...]
    ended: bool
    frame_count: int
    align: NDArray[np.float32] | None = None
    cost: Cost = field(default_factory=Cost)
    next_at: int = 0
    language: str = ""
    silence: float = -math.inf

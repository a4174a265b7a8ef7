"""What encoding, checking a draft and a step take, of two folders of graphs side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.audio.ring import Samples
from edge_runtime.decode.lane import Lane
from edge_runtime.decode.passes import Pass
from edge_runtime.decode.shape import ModelShape
from edge_runtime.decode.tiles import Chain, Size

SECONDS = (2, 4, 8, 16)
"""Audio that is timed."""

TYPICAL = 8
"""The one that a table with a single row shows."""

_ROUNDS = 7
_A_SECOND = 3.0
_STEPS = 2


class Cost(msgspec.Struct, frozen=True):
    """Milliseconds on one thread for so many `seconds` of audio: the least of several rounds.

    `draft` is the check of a draft of about three tokens a second, `step` one token more.
    """

    seconds: int
    encode: float
    draft: float
    step: float

    @property
    def update(self) -> float:
        """A typical update: encode, check, two steps."""
        return self.encode + self.draft + _STEPS * self.step


def measure(
    chains: Mapping[str, Chain], sound: Samples, told: Callable[[int], None] = lambda done: None
) -> dict[str, list[Cost]]:
    """The costs of each chain by name, in turns, so that what else happens meets all alike.

    `sound` is speech of any length, repeated as needed; `told` hears how many lengths are done.
    """
    found: dict[str, list[Cost]] = {name: [] for name in chains}
    for number, seconds in enumerate(SECONDS):
        made = {name: calls(chain, sound, seconds) for name, chain in chains.items()}
        times: dict[str, list[list[float]]] = {name: [] for name in chains}
        for _ in range(_ROUNDS):
            for name, each in made.items():
                times[name].append([_timed(call) for call in each])
        for name, rounds in times.items():
            found[name].append(Cost(seconds, *np.min(rounds, axis=0).round(3).tolist()))
        told(number + 1)
    return found


def drafted(shape: ModelShape, seconds: int) -> int:
    """Tokens of a typical draft, the begin mark among them."""
    return min(round(_A_SECOND * seconds) + 1, shape.longest)


def calls(chain: Chain, sound: Samples, seconds: int) -> Sequence[Callable[[], None]]:
    """What encodes so much of `sound`, checks a draft of it and steps once behind that."""
    samples, shape = seconds * RATE, chain.shape
    lane = Lane(chain, Size(1, samples))
    lane.stage(0, [np.resize(sound, samples)], samples)
    lane.length.host.host[0] = samples
    frames = shape.frames(samples)
    queries = drafted(shape, seconds)
    draft, step = Pass(1, queries, frames), Pass(1, 1, frames)

    def encode() -> None:
        lane.encode(1, samples)
        lane.stream.synchronize()

    def run(which: Pass, position: int) -> None:
        lane.tokens(which)[:] = 3 + np.arange(which.queries) % (shape.vocabulary - 3)
        lane.positions(which)[:] = position
        lane.decode(which)
        lane.stream.synchronize()

    encode()
    return encode, lambda: run(draft, 0), lambda: run(step, queries)


def _timed(call: Callable[[], None]) -> float:
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)

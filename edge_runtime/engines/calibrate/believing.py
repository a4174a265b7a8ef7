"""How probable a text must be to be believed, once it is written by the quantised model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from edge_runtime.config import Guarding

LEAST = -1.5
"""No threshold under this is suggested: texts of noise are as improbable as that."""


class Belief(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`threshold` is for `guarding.mean_logprob`, `reason` says in a sentence why."""

    threshold: float
    reason: str


def believe(
    pairs: Sequence[tuple[float | None, float | None]], guarding: Guarding | None = None
) -> Belief:
    """From the mean log-probabilities of speech, the original's and the quantised model's.

    What was believed before is to be believed after: where the quantised model writes some of it
    with less than the threshold of `guarding`, that goes down to the next hundredth under it, to
    `LEAST` at most. None is a turn without text.
    """
    usual = (guarding or Guarding()).mean_logprob
    after = [now for before, now in pairs if before is not None and now is not None
             and before >= usual]  # fmt: skip
    if not after:
        return Belief(usual, f"the usual {usual:g} is kept: no text was believed to begin with")
    least = min(after)
    if least >= usual:
        return Belief(
            usual, f"the usual {usual:g} is kept: the least of {len(after)} texts has {least:.2f}"
        )
    chosen = max(round(math.floor(100 * least) / 100, 2), LEAST)
    lost = sum(now < usual for now in after)
    still = sum(now < chosen for now in after)
    said = f"{lost} of {len(after)} texts that were believed have less than {usual:g} in 8 bits"
    return Belief(chosen, said + (f", {still} of them less than {chosen:g}" if still else ""))

"""What a text must look like to be believed."""

from __future__ import annotations

import msgspec

from edge_runtime.config.bounds import within


class Guarding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a text must look like to be believed."""

    tokens_per_second: float = 8.0
    compression: float = 2.4
    mean_logprob: float = -1.0
    silence: float = 0.6
    silence_logprob: float = -0.5

    def __post_init__(self) -> None:
        within(
            self,
            "guarding",
            tokens_per_second=(1, 100),
            compression=(1, 100),
            mean_logprob=(-100, 0),
            silence=(0, 1),
            silence_logprob=(-100, 0),
        )

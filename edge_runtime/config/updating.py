"""When a segment is decoded again, and when its words count as stable."""

from __future__ import annotations

import msgspec

from edge_runtime.config.bounds import within


class Updating(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When the open segment is decoded again, and when its words count as stable."""

    first_ms: int = 250
    retry_ms: int = 100
    hop_ms: int = 200
    hop_factor: float = 5.5
    stable_ms: int = 350
    stable_after_ms: int = 1800
    stable_logprob: float = -0.5
    stable_margin: float = 1.5
    held_back: int = 1
    tail_logprob: float = -0.7
    eager_logprob: float = -0.6

    def __post_init__(self) -> None:
        within(
            self,
            "updating",
            first_ms=(32, 5000),
            retry_ms=(32, 5000),
            hop_ms=(32, 5000),
            hop_factor=(0, 100),
            stable_ms=(0, 10_000),
            stable_after_ms=(0, 10_000),
            stable_logprob=(-100, 0),
            stable_margin=(0, 100),
            held_back=(0, 10),
            tail_logprob=(-100, 0),
            eager_logprob=(-100, 0),
        )

"""How a newly calibrated model is tried beside the one that serves, and what ends its trial."""

from __future__ import annotations

import msgspec

from edge_runtime.config.bounds import within


class Canary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`share` of new sessions goes to the candidate; the rest says what it may differ by.

    Nothing is judged before `min_sessions` of each have ended. `max_rejected_increase` and
    `max_conflict_increase` are finals among all, `max_failed_increase` sessions among all.
    """

    share: float = 0.0
    min_sessions: int = 20
    max_rejected_increase: float = 0.05
    max_conflict_increase: float = 0.2
    max_failed_increase: float = 0.05
    max_latency_ratio: float = 1.5
    max_length_change: float = 0.15

    def __post_init__(self) -> None:
        within(
            self,
            "canary",
            share=(0, 1),
            min_sessions=(1, 100_000),
            max_rejected_increase=(0, 1),
            max_conflict_increase=(0, 100),
            max_failed_increase=(0, 1),
            max_latency_ratio=(1, 1000),
            max_length_change=(0, 100),
        )

"""How long a device that fails is put up with, and when it is tried again."""

from __future__ import annotations

import msgspec

from edge_runtime.config.bounds import within


class Recovering(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a device that fails is put up with, and when it is tried again.

    A device that fails `failures` times in `failure_seconds` gives way to the next one, and is
    tried after `retry_seconds`, later each time. After `hang_seconds` without an answer of a lane
    the process ends. 0 of either is never.
    """

    failures: int = 5
    failure_seconds: float = 30.0
    retry_seconds: float = 60.0
    hang_seconds: float = 60.0

    def __post_init__(self) -> None:
        within(
            self,
            "recovering",
            failures=(0, 1000),
            failure_seconds=(1, 3600),
            retry_seconds=(1, 86_400),
            hang_seconds=(0, 3600),
        )

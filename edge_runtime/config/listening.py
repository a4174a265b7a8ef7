"""How speech is cut into segments and turns."""

from __future__ import annotations

import msgspec

from edge_runtime.config.bounds import within
from edge_runtime.errors import ConfigError

CAP_MS_MIN = 2000
"""The shortest that segments may be capped at."""


class Listening(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How speech is cut into segments and turns (milliseconds; probabilities of the VAD)."""

    threshold: float = 0.5
    release: float = 0.2
    strong: float = 0.8
    evidence: int = 4
    lag_ms: int = 96
    padding_ms: int = 400
    tail_ms: int = 96
    cap_ms: int = 16000
    search_ms: int = 4000

    def __post_init__(self) -> None:
        within(
            self,
            "listening",
            threshold=(0.01, 0.99),
            release=(0.01, 0.99),
            strong=(0.01, 1),
            evidence=(1, 100),
            lag_ms=(0, 200),
            padding_ms=(0, 2000),
            tail_ms=(0, 1000),
            cap_ms=(CAP_MS_MIN, 30_000),
            search_ms=(200, 20_000),
        )
        if self.search_ms >= self.cap_ms:
            raise ConfigError(
                f"listening.search_ms ({self.search_ms}) reaches past cap_ms ({self.cap_ms})",
                "Choose search_ms smaller than cap_ms: the cut is looked for inside the segment.",
            )

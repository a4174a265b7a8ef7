"""Which other protocols are spoken, and how large a recording may be that is sent whole."""

from __future__ import annotations

import msgspec

from edge_runtime.config.bounds import within


class Dialects(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which other protocols are spoken, and how large a recording may be that is sent whole."""

    openai: bool = True
    max_uploads: int = 4
    max_upload_bytes: int = 25 << 20
    max_upload_seconds: float = 14_400.0

    def __post_init__(self) -> None:
        within(
            self,
            "dialects",
            max_uploads=(1, 1000),
            max_upload_bytes=(1024, 1 << 30),
            max_upload_seconds=(1, 360_000),
        )

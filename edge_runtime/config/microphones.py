"""How one of the device's own microphones is opened, by the name that clients call it."""

from __future__ import annotations

import msgspec

from edge_runtime.config.bounds import within
from edge_runtime.errors import ConfigError


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one of the device's own microphones is opened, by the name that clients call it.

    `device` is its name, a part of that or an index; empty is the system's default. `channel` is
    which one of an array is heard, from 1 on; 0: the device is opened as a mono one. `rate` is
    in Hz, 0: 16000 where the device can, else what it prefers.
    """

    device: str = ""
    channel: int = 0
    rate: int = 0
    gain_db: float = 0.0

    def __post_init__(self) -> None:
        within(self, "microphones.NAME", channel=(0, 64), rate=(0, 192_000), gain_db=(-40, 40))
        if 0 < self.rate < 8000:
            raise ConfigError(
                f"microphones.NAME.rate is {self.rate}",
                "Choose 8000 to 192000 Hz, or 0 for what suits the device.",
            )

"""What is read of the board's heat and power, and how far we give way to them."""

from __future__ import annotations

import msgspec

from edge_runtime.config.bounds import among, within
from edge_runtime.errors import ConfigError


class Power(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is read of the board's heat and power, and how far we give way to them.

    `govern` "auto" gives way on a Jetson alone. `throttle_celsius` 0 is what the board says. The
    first limits come `margin` K below that, and go `hysteresis` K further below.
    """

    enabled: bool = True
    reader: str = "sysfs"
    root: str = "/"
    period_seconds: float = 2.0
    govern: str = "auto"
    modes: bool = True
    throttle_celsius: float = 0.0
    margin: float = 10.0
    hysteresis: float = 3.0
    hold_seconds: float = 60.0
    slowest: float = 4.0

    def __post_init__(self) -> None:
        among(self, "power", reader=("sysfs", "jtop"), govern=("auto", "always", "never"))
        within(
            self,
            "power",
            period_seconds=(0.5, 10),
            throttle_celsius=(0, 150),
            margin=(1, 50),
            hysteresis=(0, 20),
            hold_seconds=(60, 3600),
            slowest=(1, 20),
        )
        if not self.root.startswith("/"):
            raise ConfigError(
                f"power.root is {self.root!r}", "Write the whole path of a folder, from / on."
            )

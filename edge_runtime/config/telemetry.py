"""Where traces go: nowhere, unless an address is given."""

from __future__ import annotations

import msgspec

from edge_runtime.errors import ConfigError


class Telemetry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where traces go: nowhere, unless an address is given.

    `otlp_endpoint` is the address of a collector that takes OTLP over HTTP, without the path.
    """

    otlp_endpoint: str = ""

    def __post_init__(self) -> None:
        if self.otlp_endpoint and not self.otlp_endpoint.startswith(("http://", "https://")):
            raise ConfigError(
                f"telemetry.otlp_endpoint is {self.otlp_endpoint!r}",
                "Write where the collector takes OTLP over HTTP, as http://127.0.0.1:4318.",
            )

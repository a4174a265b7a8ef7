"""Where traces and profiles go: nowhere, unless an address is given."""

from __future__ import annotations

import msgspec

from edge_runtime.errors import ConfigError

_FIXES = {
    "otlp_endpoint": "Write where the collector takes OTLP over HTTP, as http://127.0.0.1:4318.",
    "pyroscope_server": "Write where Pyroscope is, as http://127.0.0.1:4040.",
}


class Telemetry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where traces and profiles go: nowhere, unless an address is given.

    `otlp_endpoint` is the address of a collector that takes OTLP over HTTP, without the path;
    `pyroscope_server` that of a Pyroscope.
    """

    otlp_endpoint: str = ""
    pyroscope_server: str = ""

    def __post_init__(self) -> None:
        for key, fix in _FIXES.items():
            address = getattr(self, key)
            if address and not address.startswith(("http://", "https://")):
                raise ConfigError(f"telemetry.{key} is {address!r}", fix)

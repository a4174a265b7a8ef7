"""Who is let in, and how much each may ask for."""

from __future__ import annotations

import re

import msgspec

from edge_runtime.config.bounds import among, within
from edge_runtime.errors import ConfigError

_ORIGIN = re.compile(r"https?://[^/\s,]+|null")


class Admitting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is let in, and how much each may ask for.

    An empty `keys_file` is the usual one, an empty `tls_cert` is no TLS, an empty `tls_key`
    is in the certificate's file. `origins` are separated by commas. The limits for each
    address do not hold for programs of this machine.
    """

    keys: str = "auto"
    keys_file: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    origins: str = ""
    open_metrics: bool = False
    header_seconds: float = 10.0
    start_seconds: float = 10.0
    sessions_per_address: int = 8
    sessions_per_minute: int = 60
    sessions_per_key: int = 16
    audio_rate: float = 50.0

    @property
    def listed_origins(self) -> frozenset[str]:
        """The origins, each as a browser writes it."""
        return frozenset(each.strip().lower() for each in self.origins.split(",") if each.strip())

    def __post_init__(self) -> None:
        among(self, "admitting", keys=("auto", "always", "never"))
        within(
            self,
            "admitting",
            header_seconds=(0.1, 300),
            start_seconds=(0.1, 300),
            sessions_per_address=(1, 10_000),
            sessions_per_minute=(1, 100_000),
            sessions_per_key=(1, 10_000),
            audio_rate=(0, 10_000),
        )
        if self.tls_key and not self.tls_cert:
            raise ConfigError(
                "admitting.tls_key is given without tls_cert", "Give the certificate, too."
            )
        for origin in self.listed_origins:
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f"admitting.origins has {origin!r}",
                    "Write origins as browsers do, with commas between them: "
                    "https://captions.example.org",
                )

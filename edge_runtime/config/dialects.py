"""Which other protocols are spoken, and how large a recording may be that is sent whole."""

from __future__ import annotations

import ipaddress

import msgspec

from edge_runtime.config.bounds import within
from edge_runtime.errors import ConfigError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Dialects(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which other protocols are spoken, and how large a recording may be that is sent whole."""

    openai: bool = True
    deepgram: bool = True
    max_uploads: int = 4
    max_upload_bytes: int = 25 << 20
    max_upload_seconds: float = 14_400.0
    wyoming_port: int = 0
    wyoming_clients: str = ""
    wyoming_announce: bool = True
    vosk_port: int = 0
    sherpa_onnx_port: int = 0
    whisper_live_port: int = 0

    def __post_init__(self) -> None:
        within(
            self,
            "dialects",
            max_uploads=(1, 1000),
            max_upload_bytes=(1024, 1 << 30),
            max_upload_seconds=(1, 360_000),
            wyoming_port=(0, 65535),
            vosk_port=(0, 65535),
            sherpa_onnx_port=(0, 65535),
            whisper_live_port=(0, 65535),
        )
        self._check_clients()

    @property
    def listed_clients(self) -> tuple[Network, ...]:
        """The machines of `wyoming_clients`: addresses and networks, separated by commas."""
        listed = (each.strip() for each in self.wyoming_clients.split(","))
        return tuple(ipaddress.ip_network(each, strict=False) for each in listed if each)

    def _check_clients(self) -> None:
        try:
            _ = self.listed_clients
        except ValueError as error:
            raise ConfigError(
                f"dialects.wyoming_clients: {error}",
                "Write addresses and networks with commas between them: 192.168.1.5, 10.0.0.0/8",
            ) from None

    def check_ports(self, main: int) -> None:
        """Raises `ConfigError` where two protocols want one port, or one that of the server."""
        owners = {main: "serving.port"}
        for key in self.__struct_fields__:
            port = getattr(self, key)
            if key.endswith("_port") and port:
                other = owners.setdefault(port, f"dialects.{key}")
                if other != f"dialects.{key}":
                    raise ConfigError(
                        f"dialects.{key} is {port}, and so is {other}",
                        "Give each a port of its own; 0 switches a protocol off.",
                    )

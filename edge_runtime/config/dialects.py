"""Which other protocols are spoken, and how large a recording may be that is sent whole."""

from __future__ import annotations

import msgspec

from edge_runtime.config.bounds import within
from edge_runtime.errors import ConfigError


class Dialects(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which other protocols are spoken, and how large a recording may be that is sent whole."""

    openai: bool = True
    deepgram: bool = True
    max_uploads: int = 4
    max_upload_bytes: int = 25 << 20
    max_upload_seconds: float = 14_400.0
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
            vosk_port=(0, 65535),
            sherpa_onnx_port=(0, 65535),
            whisper_live_port=(0, 65535),
        )

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

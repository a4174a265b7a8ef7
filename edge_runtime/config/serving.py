"""Where the server listens and how much it takes on."""

from __future__ import annotations

import msgspec

from edge_runtime.config.bounds import within
from edge_runtime.errors import ConfigError


class Serving(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the server listens and how much it takes on.

    `models` are all that are served, as a list or with commas between them; empty: `model` alone.
    Where nobody gave `model`, it is the first of them. `state_mb` is the memory for what models
    that hear each sound once keep of sessions between updates.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    model: str = "moonshine-tiny-en"
    device: str = "auto"
    max_sessions: int = 32
    resume_seconds: float = 30.0
    idle_seconds: float = 300.0
    max_message_bytes: int = 1 << 20
    state_mb: int = 512
    models: str | tuple[str, ...] = ""

    @property
    def served(self) -> tuple[str, ...]:
        """All models, the default first, each once."""
        return tuple(dict.fromkeys((self.model, *self.listed)))

    @property
    def listed(self) -> tuple[str, ...]:
        """Those of `models`."""
        given = self.models.split(",") if isinstance(self.models, str) else self.models
        return tuple(name for each in given if (name := each.strip()))

    def __post_init__(self) -> None:
        for key in ("host", "model", "device"):
            if not getattr(self, key):
                raise ConfigError(f"serving.{key} is empty", "Leave it out for the default.")
        within(
            self,
            "serving",
            port=(0, 65535),
            max_sessions=(1, 10_000),
            resume_seconds=(0, 3600),
            idle_seconds=(1, 86_400),
            max_message_bytes=(1024, 1 << 23),
            state_mb=(1, 1 << 20),
        )

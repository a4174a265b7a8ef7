"""Where the server listens and how much it takes on."""

from __future__ import annotations

import re

import msgspec

from edge_runtime.config.bounds import within
from edge_runtime.errors import ConfigError

_LANGUAGE = re.compile("[a-z]{2,3}")


class Serving(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the server listens and how much it takes on.

    `models` are all that are served, as a list or with commas between them; empty: `model` alone.
    Where nobody gave `model`, it is the first of them. `state_mb` is the memory for what models
    that hear each sound once keep of sessions between updates. `languages`, given as `models` are:
    where a model of several finds out what is spoken, it is one of these; empty: any.
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
    languages: str | tuple[str, ...] = ""

    @property
    def served(self) -> tuple[str, ...]:
        """All models, the default first, each once."""
        return tuple(dict.fromkeys((self.model, *self.listed)))

    @property
    def listed(self) -> tuple[str, ...]:
        """Those of `models`."""
        return _names(self.models)

    @property
    def spoken(self) -> tuple[str, ...]:
        """Those of `languages`."""
        return _names(self.languages)

    def __post_init__(self) -> None:
        for key in ("host", "model", "device"):
            if not getattr(self, key):
                raise ConfigError(f"serving.{key} is empty", "Leave it out for the default.")
        for name in self.spoken:
            if not _LANGUAGE.fullmatch(name):
                raise ConfigError(
                    f"serving.languages has {name[:20]!r}", "Use codes such as de, en."
                )
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


def _names(listed: str | tuple[str, ...]) -> tuple[str, ...]:
    given = listed.split(",") if isinstance(listed, str) else listed
    return tuple(name for each in given if (name := each.strip()))

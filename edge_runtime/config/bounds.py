"""Checks that the records make when they are made."""

from __future__ import annotations

import msgspec

from edge_runtime.errors import ConfigError


def within(record: msgspec.Struct, table: str, **bounds: tuple[float, float]) -> None:
    """Raises `ConfigError` for a key of `record` that is out of its (lowest, highest)."""
    for key, (low, high) in bounds.items():
        value = getattr(record, key)
        if not low <= value <= high:  # also refuses NaN
            raise ConfigError(f"{table}.{key} is {value}", f"Choose one from {low} to {high}.")


def among(record: msgspec.Struct, table: str, **words: tuple[str, ...]) -> None:
    """Raises `ConfigError` for a key of `record` that is none of its words."""
    for key, known in words.items():
        value = getattr(record, key)
        if value not in known:
            raise ConfigError(f"{table}.{key} is {value!r}", f"Choose one of {', '.join(known)}.")

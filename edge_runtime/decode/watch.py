"""Who looks on while a lane works, and is told of each stage as it begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from edge_runtime.decode.update import Update
from edge_runtime.device.base import Mark


class Watch(Protocol):
    """Told on the lane's thread. Each stage ends where the next begins, the last with `end`.

    A `mark` is where the device's work of the stage begins, or of all of it ends. Where an
    update fails, there is no `end`.
    """

    def begin(self, updates: Sequence[Update]) -> None: ...

    def stage(self, name: str, mark: Mark) -> None:
        """`name` is "encode", "draft" or "decode": of the last there is one for each look."""
        ...

    def end(self, mark: Mark) -> None:
        """The host has waited for all of it."""
        ...


class Unwatched:
    """Nobody looks on."""

    def begin(self, updates: Sequence[Update]) -> None:
        return None

    def stage(self, name: str, mark: Mark) -> None:
        return None

    def end(self, mark: Mark) -> None:
        return None

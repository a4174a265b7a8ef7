"""Ranges that NVIDIA's tools show beside what the GPU does, where `nvtx` is installed."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Protocol


class Ranges(Protocol):
    """Nested ranges of one thread: an update, and in it one stage after the other."""

    def push(self, name: str) -> None:
        """Begin one within those that are open."""
        ...

    def turn(self, name: str) -> None:
        """End the stage that is open, if one is, and begin the next."""
        ...

    def close(self) -> None:
        """End all."""
        ...


class Unmarked:
    """No ranges."""

    def push(self, name: str) -> None:
        return None

    def turn(self, name: str) -> None:
        return None

    def close(self) -> None:
        return None


class Nvtx:
    """Ranges of the `nvtx` package in a domain called edge-runtime."""

    def __init__(self) -> None:
        nvtx: Any = importlib.import_module("nvtx")
        self._domain = nvtx.get_domain("edge-runtime")
        self._open = 0

    def push(self, name: str) -> None:
        """See `Ranges`."""
        self._domain.push_range(self._domain.get_event_attributes(message=name))
        self._open += 1

    def turn(self, name: str) -> None:
        """See `Ranges`."""
        while self._open > 1:
            self._pop()
        self.push(name)

    def close(self) -> None:
        """See `Ranges`."""
        while self._open:
            self._pop()

    def _pop(self) -> None:
        self._domain.pop_range()
        self._open -= 1


def open_ranges() -> Ranges:
    """Of `nvtx` where it is installed, else none."""
    return Nvtx() if importlib.util.find_spec("nvtx") else Unmarked()

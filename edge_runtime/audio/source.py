"""What every source of audio offers."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Protocol

from edge_runtime.audio.ring import Samples

BLOCK_MS = 100
"""The length of the blocks that sources hand out, unless told otherwise."""


class Source(Protocol):
    """Audio to listen to, block by block: float32 mono at 16 kHz, each of at most a second.

    Reading may block (a pipe, a microphone) and may raise `AudioError` or `MicrophoneError`.
    """

    @property
    def name(self) -> str:
        """What people call it: a file's path, a device's name."""
        ...

    @property
    def seconds(self) -> float | None:
        """How long it is, where that is known before reading."""
        ...

    @property
    def live(self) -> bool:
        """It will not wait: what is not read in time is lost."""
        ...

    @property
    def warnings(self) -> list[str]:
        """What was odd so far, a sentence each; complete when the iteration is over."""
        ...

    def __iter__(self) -> Iterator[Samples]: ...

    def __enter__(self) -> Source: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

"""What a runtime tells of the time that its work takes."""

from __future__ import annotations

from typing import Protocol

from edge_runtime.decode.update import Hypothesis, Update
from edge_runtime.decode.watch import Unwatched, Watch


class Tracer(Protocol):
    """All moments are those of `time.perf_counter`, in seconds.

    `heard` is told on the audio worker's thread, a watch on its lane's, all else on the event
    loop's. Nothing here may raise, and nothing but `flush` wait.
    """

    def watch(self, lane: int) -> Watch:
        """Who looks on while that lane works."""
        ...

    def opened(self, session: str) -> None:
        """A session began."""
        ...

    def heard(self, began: float, ended: float, frames: int) -> None:
        """The voice detector judged so many frames of 32 ms."""
        ...

    def merged(self, hypothesis: Hypothesis, wanted: float, began: float, ended: float) -> None:
        """A session took in what an update gave that it had `wanted`, between the other two."""
        ...

    def failed(self, update: Update, wanted: float, code: str) -> None:
        """An update gave an error."""
        ...

    def closed(self, session: str) -> None:
        """A session ended."""
        ...

    def flush(self) -> None:
        """Serving ends. This may wait a little, and is not told on the event loop's thread."""
        ...


class Untraced:
    """Nobody wants to know."""

    def watch(self, lane: int) -> Watch:
        return Unwatched()

    def opened(self, session: str) -> None:
        return None

    def heard(self, began: float, ended: float, frames: int) -> None:
        return None

    def merged(self, hypothesis: Hypothesis, wanted: float, began: float, ended: float) -> None:
        return None

    def failed(self, update: Update, wanted: float, code: str) -> None:
        return None

    def closed(self, session: str) -> None:
        return None

    def flush(self) -> None:
        return None

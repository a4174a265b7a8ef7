"""A progress bar on standard error: seconds of audio done, of how many, and how fast."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

WORTH_IT = 20.0  # seconds of audio; shorter files are over before a bar can be read


class AudioProgress:
    """Shows nothing for short audio, and nothing where standard error is not a terminal."""

    def __init__(self, name: str, seconds: float | None) -> None:
        self._shown = sys.stderr.isatty() and (seconds is None or seconds > WORTH_IT)
        self._began = time.monotonic()
        self._seconds = seconds
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[audio]}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            disable=not self._shown,
        )
        self._task = self._bar.add_task(name, total=seconds, audio="", speed="")

    def __enter__(self) -> AudioProgress:
        self._bar.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def reached(self, seconds: float) -> None:
        """So many seconds of audio have been read."""
        if not self._shown:
            return
        speed = seconds / max(time.monotonic() - self._began, 1e-3)
        total = f" / {clock(self._seconds)}" if self._seconds is not None else ""
        self._bar.update(
            self._task, completed=seconds, audio=clock(seconds) + total, speed=f"{speed:.0f}×"
        )


def clock(seconds: float) -> str:
    """`m:ss`, or `h:mm:ss` from an hour on."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

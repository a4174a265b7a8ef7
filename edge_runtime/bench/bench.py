"""One run of the bench: what was asked for, the clips, and what has been measured so far."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from edge_runtime.audio.ring import Samples
from edge_runtime.bench import server
from edge_runtime.bench.client import Playing, play_clip
from edge_runtime.bench.figure import Figure, Figures
from edge_runtime.bench.manifest import Clip, Manifest, spread
from edge_runtime.bench.served import Served
from edge_runtime.bench.server import Server
from edge_runtime.bench.take import Take
from edge_runtime.config import load

Decode = Callable[[Samples], str]
_TOGETHER = 4  # clips at a time where nothing is timed


@dataclass(frozen=True)
class Crowd:
    """How the row `streams` is run: `auto` looks for the most that keep finals within `limit` ms.

    Each number is played for `seconds`; `log` gets the prediction first, then a line for each.
    """

    auto: bool = False
    limit: int = 900
    seconds: int = 60
    most: int = 512
    log: Path = Path("streams.jsonl")


@dataclass(frozen=True)
class Options:
    """What the command line said; empty strings and zeros leave the default."""

    quick: int = 0
    streams: int = 1
    url: str = ""
    peer: str = ""
    minutes: int = 60
    model: str = ""
    device: str = ""
    config: Path | None = None
    crowd: Crowd = field(default_factory=Crowd)

    @property
    def arguments(self) -> list[str]:
        """For our own commands."""
        return server.arguments(self.model, self.device, self.config)


@dataclass
class Bench:
    """What the rows share; `failed` holds a message a row, `served` each form that computed."""

    manifest: Manifest
    options: Options
    progress: Progress
    figures: Figures = field(default_factory=Figures)
    takes: list[Take] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    served: list[Served] = field(default_factory=list)
    _interrupted: bool = False
    _texts: dict[str, str] = field(default_factory=dict)
    _decode: Decode | None = None

    def add(
        self, name: str, label: str, value: float | None, unit: str = "", note: str = ""
    ) -> None:
        """Record a figure."""
        self.figures.add(Figure(name, label, value, unit, note))

    def some(self, clips: Sequence[Clip]) -> tuple[Clip, ...]:
        """The clips, or as many as `--quick` allows."""
        return spread(clips, self.options.quick)

    @contextlib.contextmanager
    def server(self, *more: str) -> Iterator[Server]:
        """A fresh server of our own, with `more` options, or the one at `--url`."""
        if self.options.url:
            yield self._told(Server(self.options.url))
        else:
            with server.started([*self.options.arguments, *more]) as ours:
                yield self._told(ours)

    def _told(self, of: Server) -> Server:
        self._note(Served.told(of.health()))
        return of

    def _note(self, served: Served) -> None:
        if served not in self.served:
            self.served.append(served)

    @property
    def decode(self) -> Decode:
        """Whole-utterance decode in this process; the model loads at the first use."""
        if self._decode is None:
            from edge_runtime.bench.whole import Whole

            options = self.options
            whole = Whole(options.model, options.device, load(options.config))
            self._note(whole.served)
            self._decode = whole
        return self._decode

    def text(self, clip: Clip) -> str:
        """The clip's whole-utterance decode, done once."""
        if clip.name not in self._texts:
            self._texts[clip.name] = self.decode(clip.pcm)
        return self._texts[clip.name]

    def texts(self, clips: Sequence[Clip], label: str) -> list[str]:
        """`text` of each, with a progress bar."""
        with self.bar(label, len(clips)) as step:
            found = []
            for clip in clips:
                found.append(self.text(clip))
                step()
        return found

    @contextlib.contextmanager
    def bar(self, label: str, steps: int) -> Iterator[Callable[[], None]]:
        """A progress bar; the function it gives moves it on by one step."""
        task = self.progress.add_task(label, total=steps)
        try:
            yield lambda: self.progress.advance(task)
        finally:
            self.progress.remove_task(task)

    def interrupt(self) -> None:
        """Ctrl-C was pressed."""
        self._interrupted = True

    def interrupted(self) -> bool:
        """Whether what was measured is all there will be."""
        return self._interrupted

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run to its end or to Ctrl-C, which is noted: what was gathered until then counts."""
        try:
            asyncio.run(work)
        except KeyboardInterrupt:
            self.interrupt()

    def play(
        self, url: str, clips: Sequence[Clip], playing: Playing, label: str, together: int = 0
    ) -> list[Take]:
        """The clips through the server, `together` at a time, in the order of the clips."""
        takes: dict[str, Take] = {}
        with self.bar(label, len(clips)) as step:

            async def one(clip: Clip) -> None:
                takes[clip.name] = await play_clip(url, clip, playing)
                step()

            self.run(each(clips, one, together or _TOGETHER))
        return [takes[clip.name] for clip in clips if clip.name in takes]


def progress(console: Console) -> Progress:
    """Bars that say what is played, how far it is and how long it will take."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


async def each(
    clips: Sequence[Clip], one: Callable[[Clip], Coroutine[Any, Any, None]], together: int
) -> None:
    """`one` of every clip, in order, `together` at a time; the first error ends all."""
    if not clips:
        return
    waiting = iter(clips)

    async def worker() -> None:
        for clip in waiting:
            await one(clip)

    tasks = [asyncio.create_task(worker()) for _ in range(min(together, len(clips)))]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

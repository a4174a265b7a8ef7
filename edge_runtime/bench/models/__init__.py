"""Models side by side on the same clips, and other systems beside them, in one run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from rich.progress import Progress

from edge_runtime import words
from edge_runtime.bench import energy, latency
from edge_runtime.bench.manifest import Clip, Manifest, spread
from edge_runtime.bench.models.row import Row
from edge_runtime.bench.models.system import System, ours, theirs
from edge_runtime.bench.take import Take
from edge_runtime.errors import EdgeRuntimeError

__all__ = ["Comparison", "Row", "chosen", "compare", "run"]

SHORT = 10.0
"""Seconds: paced clips are no longer, as far as there are such, so that more of them fit."""


@dataclass
class Comparison:
    """Which clips, by which systems; `rows` has what was measured, in that order.

    `texts`: clips whose words are compared, played at once. `paced`: those that are played like a
    microphone, for how long somebody waits and what it costs. `options` are those of our `serve`.
    """

    models: Sequence[str]
    peers: Sequence[str]
    texts: tuple[Clip, ...]
    paced: tuple[Clip, ...]
    options: Sequence[str] = ()
    rows: list[Row] = field(default_factory=list)
    interrupted: bool = False

    @property
    def steps(self) -> int:
        """Clips that are played, to all systems."""
        return (len(self.models) + len(self.peers)) * (len(self.texts) + len(self.paced))


def chosen(manifest: Manifest, quick: int, paced: int) -> tuple[tuple[Clip, ...], tuple[Clip, ...]]:
    """`quick` clean clips (0: all) for their texts and `paced` short ones, evenly spread."""
    short = tuple(clip for clip in manifest.clean if clip.seconds <= SHORT) or manifest.clean
    return spread(manifest.clean, quick), spread(short, paced)


def run(comparison: Comparison, bars: Progress) -> None:
    """`compare`, to its end or to Ctrl-C: what was gathered until then counts."""
    task = bars.add_task("", total=comparison.steps)
    try:
        asyncio.run(
            compare(
                comparison,
                lambda name: bars.update(task, description=name),
                lambda: bars.advance(task),
            )
        )
    except KeyboardInterrupt:
        comparison.interrupted = True


async def compare(
    comparison: Comparison, began: Callable[[str], None], step: Callable[[], None]
) -> None:
    """Fill `comparison.rows`; `began` is told of each system, `step` is called after each clip.

    A system that is not there, or fails, has a row that says why, and what helps.
    """
    running: list[tuple[Row, AbstractAsyncContextManager[System]]] = [
        (Row(model, ours=True), ours(model, comparison.options)) for model in comparison.models
    ]
    running += [(Row(name, ours=False), theirs(name)) for name in comparison.peers]
    for row, context in running:
        began(row.name)
        comparison.rows.append(row)
        try:
            async with context as system:
                await _measure(row, system, comparison, step)
        except EdgeRuntimeError as error:
            row.failed, row.said = True, str(error)


async def _measure(
    row: Row, system: System, comparison: Comparison, step: Callable[[], None]
) -> None:
    row.said = system.said
    first = comparison.paced or comparison.texts
    await system.play(first[0], paced=False)  # what comes first pays for what is made then
    row.memory, row.disk = system.memory(), system.disk()
    takes = []
    for clip in comparison.paced:
        takes.append(await system.play(clip, paced=True))
        _waited(row, clip, takes[-1])
        row.cpu, row.paced = _cost(takes), len(takes)
        step()
    whole, score = [], words.Score()
    for clip in comparison.texts:
        whole.append(await system.play(clip, paced=False))
        score += words.score(clip.reference, whole[-1].text)
        row.score, row.clips, row.whole = score, len(whole), _cost(whole)
        row.memory = system.memory()
        step()


def _waited(row: Row, clip: Clip, take: Take) -> None:
    span = energy.speech(clip.pcm)
    if span is None:
        return
    voiced = energy.speech(clip.pcm, energy.VOICED_DB) or span
    final = latency.final_after(take, span)
    first = latency.first_partial_after(take, voiced.onset)
    row.finals += [] if final is None else [1000 * final]
    row.firsts += [] if first is None else [1000 * first]


def _cost(takes: Sequence[Take]) -> float | None:
    used = [take.cpu for take in takes if take.cpu is not None]
    if len(used) < len(takes):
        return None
    return sum(used) / sum(take.seconds for take in takes)

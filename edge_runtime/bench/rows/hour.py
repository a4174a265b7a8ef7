"""One stream for an hour: whether the cost of a hop, or memory, grows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.bench.bench import Bench
from edge_runtime.bench.client import PIECE, Playing, play
from edge_runtime.bench.server import Server
from edge_runtime.bench.take import Arrival
from edge_runtime.errors import ConfigError
from edge_runtime.events import Final, Partial

MINUTE = 60 * RATE


@dataclass(frozen=True)
class Mark:
    """The server's totals when the stream passed a full minute."""

    cpu: float
    updates: float
    memory: int


def measure(bench: Bench) -> None:
    """Adds `hour.*`: the same minute of clips over and over, fed as fast as it takes.

    The cost of a hop is the processor time of a minute over its updates.
    """
    if bench.options.url:
        raise ConfigError("the row hour reads its server's memory", "Leave --url out.")
    minutes = max(3, bench.options.minutes)
    block = np.concatenate([clip.pcm for clip in bench.manifest.clean])
    block = np.resize(block, MINUTE) if len(block) < MINUTE else block[:MINUTE]
    assert MINUTE % PIECE == 0
    marks: list[Mark] = []
    with bench.server() as server, bench.bar(f"{minutes} minutes, unpaced", minutes) as step:

        def watch(arrival: Arrival) -> None:
            event = arrival.event
            if isinstance(event, (Partial, Final)) and event.end >= 60 * len(marks):
                marks.append(_mark(server))
                step()

        async def work() -> None:
            marks.append(_mark(server))
            playing = Playing(paced=False, after="stop", repeat=minutes)
            await play(server.url, "hour", block, playing, watch)
            if len(marks) <= minutes:
                marks.append(_mark(server))

        bench.run(work())
    add(bench, marks)


def add(bench: Bench, marks: list[Mark]) -> None:
    """The figures of the marks at 0, 1, 2, … minutes."""
    if len(marks) < 4:
        return
    hops = [(b.cpu - a.cpu) / max(1.0, b.updates - a.updates) for a, b in pairwise(marks)]
    cpus = [b.cpu - a.cpu for a, b in pairwise(marks)]
    few = max(1, min(5, len(hops) // 3))
    middle = float(np.median(hops[-few:]) / np.median(hops[:few]))
    bench.add(
        "hour.hop",
        f"cost of a hop, minute {len(hops)} over minute 1",
        hops[-1] / hops[0],
        "×",
        f"{1000 * hops[0]:.1f} → {1000 * hops[-1]:.1f} ms of CPU; medians of the first "
        f"and last {few} minutes: {middle:.2f} ×",
    )
    bench.add("hour.minute", "CPU of the last minute over the first", cpus[-1] / cpus[0], "×")
    bench.add(
        "hour.memory",
        "growth of memory after minute 1",
        (marks[-1].memory - marks[1].memory) / 2**20,
        "MB",
        f"{marks[-1].memory / 2**20:.0f} MB at the end",
    )
    bench.add(
        "hour.cpu",
        "CPU seconds per audio second, unpaced",
        sum(cpus) / 60 / len(cpus),
        "s/s",
        f"{len(cpus)} minutes",
    )


def _mark(server: Server) -> Mark:
    page = server.scrape()
    process = server.process
    assert process is not None
    return Mark(
        process.cpu() or 0.0,
        page.value("edge_runtime_updates_total") or 0.0,
        process.memory() or 0,
    )

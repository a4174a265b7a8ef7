"""What seeing inside costs a server: one with metrics and traces beside one that has neither.

    python tools/cost_of_seeing.py MANIFEST [SECONDS]     5 minutes; on a machine that is idle

Both play the same paced clips by turns, each pair in the other order than the last. The one that
is seen sends a span for each update to a collector and is read as Prometheus reads it. Between
updates lies a fixed piece of audio here, so that both make the same ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import HTTPServer
from multiprocessing import Process
from pathlib import Path
from typing import Any

from cost_of_calls import Taking

from edge_runtime.bench import energy
from edge_runtime.bench.client import Playing, play_clip
from edge_runtime.bench.latency import final_after
from edge_runtime.bench.manifest import Clip, read
from edge_runtime.bench.percentile import percentile
from edge_runtime.bench.server import Server, started
from edge_runtime.bench.take import Take

SCRAPE = 15.0  # s, as docs/monitoring/prometheus.yml has it
HOPS = {"HOP_MS": "300", "HOP_FACTOR": "0"}
LONGEST = 8.0  # s of a clip
DRAWS = 2000


class Nothing:
    """Stands in for all metrics: whatever is asked of it is nothing, and costs next to that."""

    def __getattr__(self, name: str) -> Nothing:
        return self

    def __call__(self, *_: Any, **__: Any) -> Nothing:
        return self


def unseen(arguments: Sequence[str]) -> None:
    """The command, with metrics that count nothing."""
    import edge_runtime.metrics
    from edge_runtime.cli import main as command

    edge_runtime.metrics.Metrics = Nothing  # type: ignore[misc, assignment]
    sys.argv = ["edge-runtime", *arguments]
    command()


@dataclass(frozen=True)
class Pair:
    """One clip through both: seconds of processor time, and how long its final took."""

    off: float
    on: float
    waited_off: float | None
    waited_on: float | None

    @property
    def more(self) -> float:
        """Percent that the one that is seen takes more."""
        return 100 * (self.on / self.off - 1)


@contextlib.contextmanager
def collector() -> Iterator[str]:
    """The address of one that takes every trace."""
    server = HTTPServer(("127.0.0.1", 0), Taking)
    taking = Process(target=server.serve_forever, daemon=True)
    taking.start()
    yield f"http://127.0.0.1:{server.server_port}"
    taking.terminate()


def spent(server: Server) -> float:
    """Seconds of processor time of all its threads, by the kernel's own count in ns."""
    assert server.process is not None
    return time.clock_gettime((~server.process.pid << 3) | 2)  # see clock_getcpuclockid(3)


async def scrapes(server: Server) -> None:
    """Read its metrics as Prometheus does."""
    while True:
        await asyncio.to_thread(server.scrape)
        await asyncio.sleep(SCRAPE)


async def play(off: Server, on: Server, clips: Sequence[Clip], seconds: float) -> list[Pair]:
    """As many as there is time for; what either spends while the other plays is its own, too."""
    reading = asyncio.create_task(scrapes(on))
    found: list[Pair] = []
    order = [off, on]
    ends = time.monotonic() + seconds
    for clip in itertools.cycle(clips):
        if time.monotonic() > ends:
            break
        before = spent(off), spent(on)
        takes = {server.url: await play_clip(server.url, clip, Playing()) for server in order}
        after = spent(off), spent(on)
        waits = [_wait(takes[server.url], clip) for server in (off, on)]
        found.append(Pair(after[0] - before[0], after[1] - before[1], waits[0], waits[1]))
        order.reverse()
    reading.cancel()
    return found


def _wait(take: Take, clip: Clip) -> float | None:
    span = energy.speech(clip.pcm)
    return None if span is None else final_after(take, span)


def drawn(values: Sequence[Any], figure: Callable[[Sequence[Any]], float]) -> str:
    """A figure of `values`, and where 95 of 100 lie that are drawn from them anew."""
    chance = random.Random(0)
    found = sorted(figure(chance.choices(values, k=len(values))) for _ in range(DRAWS))
    low, high = found[DRAWS * 25 // 1000], found[DRAWS * 975 // 1000]
    return f"{figure(values):+.2f}   (95 %: {low:+.2f} to {high:+.2f})"


def late(waits: Sequence[tuple[float, float]]) -> float:
    """ms by which the p95 of those that are seen is later."""
    off, on = (percentile([pair[which] for pair in waits], 95) or 0.0 for which in (0, 1))
    return 1000 * (on - off)


def tell(found: Sequence[Pair]) -> None:
    """Print what came out."""
    waits = [(p.waited_off, p.waited_on) for p in found if p.waited_off and p.waited_on]
    off, on = (sum(getattr(pair, which) for pair in found) for which in ("off", "on"))
    print(f"{len(found)} pairs; processor time {off:.2f} s without, {on:.2f} s with")
    print("more processor time, %:")
    print(f"  middle of the pairs       {drawn([p.more for p in found], statistics.median)}")
    print(f"  all of it                 {drawn(found, total)}")
    print("end of speech to final, ms later:")
    print(
        f"  middle of the pairs       {drawn([1e3 * (b - a) for a, b in waits], statistics.median)}"
    )
    print(f"  p95                       {drawn(waits, late)}")


def total(found: Sequence[Pair]) -> float:
    """Percent that all that are seen take more."""
    return 100 * (sum(pair.on for pair in found) / sum(pair.off for pair in found) - 1)


def main() -> None:
    """Start both, play, and print."""
    clips = [clip for clip in read(Path(sys.argv[1])).clean if clip.seconds <= LONGEST]
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 280.0
    os.environ.update({f"EDGE_RUNTIME_UPDATING_{key}": value for key, value in HOPS.items()})
    without = [sys.executable, __file__]
    with collector() as where, started([], without) as off:
        traced = f"EDGE_RUNTIME_TELEMETRY_OTLP_ENDPOINT={where}"
        with started([], ["env", traced, sys.executable, "-m", "edge_runtime"]) as on:
            for server in (off, on):  # neither's first clip counts
                asyncio.run(play_clip(server.url, clips[-1], Playing()))
            found = asyncio.run(play(off, on, clips, seconds))
    tell(found)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        unseen(sys.argv[1:])
    else:
        main()

"""All clips through a real `Runtime`: graphs, padding, allocations, waits, bytes, words."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np

from edge_runtime import words
from edge_runtime.audio import RATE
from edge_runtime.bench.percentile import share
from edge_runtime.bench.scrape import Scrape
from edge_runtime.config import Computing, Config
from edge_runtime.decode.update import Cost
from edge_runtime.events import Final, Partial
from edge_runtime.metrics import Metrics
from edge_runtime.runtime import Options, Runtime
from gpu_bench import timing
from gpu_bench.bench import Bench
from gpu_bench.reference import Clip

STREAMS = 4
"""Clips at a time."""
PIECE = RATE // 10
SILENCE = RATE
PATIENCE = 120.0
"""Seconds for one clip."""


class Watched(Metrics):
    """Metrics that keep what every update cost."""

    def __init__(self) -> None:
        super().__init__()
        self.costs: list[tuple[str, Any]] = []

    def update(self, purpose: str, cost: Any) -> None:
        self.costs.append((purpose, cost))
        super().update(purpose, cost)


def measure(bench: Bench) -> None:
    """Adds `streamed.*`, float16 (float32 on a CPU)."""
    with timing.turns_kept():
        asyncio.run(_measure(bench))


async def _measure(bench: Bench) -> None:
    precision = bench.precisions[-1]
    config = Config(computing=Computing(precision=precision))
    metrics = Watched()
    runtime = Runtime(config, bench.options.model, bench.options.device, metrics=metrics)
    texts: dict[str, str] = {}
    # Kept to the end: what libraries give back late has somewhere to go.
    bench.kept.append(runtime)
    async with runtime.serving():
        free = _free(runtime)
        began, before = time.perf_counter(), Scrape.parse(metrics.text().decode())
        gate = asyncio.Semaphore(STREAMS)

        async def one(clip: Clip) -> int:
            async with gate:
                playing = _play(runtime, bench, clip)
                texts[clip.id], shown = await asyncio.wait_for(playing, PATIENCE)
                return shown

        partials = sum(await asyncio.gather(*map(one, bench.clips.all)))
        grown = Scrape.parse(metrics.text().decode()) - before
        after = _free(runtime)
        took = time.perf_counter() - began
        _say(bench, grown, [cost for _, cost in metrics.costs], precision)
        _memory(bench, runtime, free, after)
    score = words.total([(clip.transcript, texts[clip.id]) for clip in bench.clips.all])
    bench.add(
        "streamed.wer",
        f"streamed, {precision}: WER of the finals",
        score.rate,
        "%",
        f"{score.errors} of {score.words} words, {len(texts)} clips",
    )
    bench.add(
        "streamed.speed",
        "streamed: seconds of audio a second",
        bench.clips.seconds / took,
        "",
        f"{len(metrics.costs)} updates, {partials} partials read, {STREAMS} streams at a time",
    )


async def _play(runtime: Runtime, bench: Bench, clip: Clip) -> tuple[str, int]:
    """One clip in virtual time: a piece goes in when all before it was heard and asked for.

    Gives the text of its finals and the number of partials.
    """
    stream = runtime.open(Options(partials=True))
    finals: list[str] = []
    shown = 0

    async def read() -> None:
        nonlocal shown
        async for event in stream:
            shown += isinstance(event, Partial)
            if isinstance(event, Final) and event.text.strip():
                finals.append(event.text.strip())

    reading = asyncio.create_task(read())
    pcm = np.concatenate([bench.clips.audio(clip), np.zeros(SILENCE, np.float32)])
    for start in range(0, len(pcm), PIECE):
        await stream.feed(pcm[start : start + PIECE])
        # Nothing tells of a session at rest.
        while not stream.session.at_rest and not stream.session.closed:  # noqa: ASYNC110
            await asyncio.sleep(0.0005)
    stream.stop()
    await reading
    return " ".join(finals), shown


def _say(bench: Bench, grown: Scrape, costs: list[Cost], precision: str) -> None:
    def counted(name: str, **labels: str) -> float:
        return grown.value(f"edge_runtime_{name}_total", **labels) or 0.0

    hits, misses = (counted("graphs", result=result) for result in ("hit", "miss"))
    if hits + misses and not bench.options.on_cpu:
        bench.add(
            "streamed.hits",
            f"streamed, {precision}: graphs that were there, after the warm-up",
            share(hits, hits + misses),
            "%",
            f"{hits:.0f} of {hits + misses:.0f}, {counted('graphs', result='failed'):.0f} failed",
        )
    real, padding = (counted("padding", kind="samples", part=p) for p in ("real", "padding"))
    bench.add(
        "streamed.padding",
        "streamed: samples encoded for nothing, of all that were",
        share(padding, real + padding),
        "%",
    )
    waits = [float(cost.waits) for cost in costs] or [0.0]
    told = timing.spread(waits)
    for name, q in (("p50", 50), ("p95", 95), ("max", 100)):
        bench.add(
            f"streamed.waits.{name}",
            f"streamed: host waits in an update, {name}",
            float(np.percentile(waits, q)),
            "",
            f"{told}, {len(costs)} updates",
        )
    busy = [1e3 * cost.busy for cost in costs] or [0.0]
    bench.add(
        "streamed.busy",
        "streamed: time of the device for an update",
        float(np.median(busy)),
        "ms",
        timing.spread(busy, "ms"),
    )
    for (sample, labels), value in sorted(grown.samples.items(), key=lambda each: str(each[0])):
        of = dict(labels)
        if sample == "edge_runtime_copied_bytes_total" and value:
            bench.add(
                f"streamed.bytes.{of['direction']}.{of['kind']}",
                f"streamed: bytes {of['direction']} of the device an update, {of['kind']}",
                value / max(1, len(costs)),
                "B",
            )
    bench.add("streamed.ties", "streamed: near ties", counted("near_ties"))


def _memory(bench: Bench, runtime: Runtime, before: int | None, after: int | None) -> None:
    budget = runtime.loaded.budget
    if budget is None or before is None or after is None:
        return
    bench.add(
        "streamed.allocations",
        "streamed: allocations on the device after the warm-up",
        budget.since_warm,
        "",
        f"the card's own free memory: {before} before, {after} after",
    )
    bench.add(
        "streamed.memory",
        "memory of the device taken by two lanes and their model",
        budget.taken / 2**20,
        "MB",
        ", ".join(f"{what} {size / 2**20:.1f}" for what, size in budget.by_kind.items()),
    )
    bench.add("streamed.grown", "the card's free memory, less after", before - after, "B")


def _free(runtime: Runtime) -> int | None:
    driver = getattr(runtime.device, "driver", None)
    return None if driver is None else int(driver.free()[0])

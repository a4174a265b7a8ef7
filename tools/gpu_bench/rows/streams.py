"""How many microphones in real time keep their finals in time, and what is busy then."""

from __future__ import annotations

import asyncio

from edge_runtime.config import Computing, Config, Serving
from edge_runtime.runtime import Runtime
from gpu_bench import timing
from gpu_bench.bench import Bench
from gpu_bench.speakers import Busy, Heard, Said, speak

STREAMS = (64, 128, 192, 256, 300)
SECONDS = 8.0
CLIPS = 24
"""The shortest, so that enough of them end meanwhile."""

LIMIT = 0.75
"""Seconds from the end of speech to its final that 95 % keep, endpoint 500 ms included."""


def measure(bench: Bench) -> None:
    """Adds `held.*`, float16 (float32 on a CPU): in this process, without sockets."""
    with timing.turns_kept():
        asyncio.run(_measure(bench))


async def _measure(bench: Bench) -> None:
    config = Config(
        computing=Computing(precision=bench.precisions[-1]),
        serving=Serving(max_sessions=max(STREAMS) + 4),
    )
    busy = Busy()
    runtime = Runtime(config, bench.options.model, bench.options.device, tracer=busy)
    bench.kept.append(runtime)
    short = sorted(bench.clips.all, key=lambda clip: clip.samples)[:CLIPS]
    clips = [said for clip in short if (said := Said.of(bench.clips.audio(clip)))]
    most = 0
    async with runtime.serving():
        for streams in STREAMS:
            heard = await speak(runtime, busy, clips, streams, _seconds(bench))
            _add(bench, heard)
            if heard.p(95) > LIMIT:
                break
            most = streams
    bench.add(
        "held.streams", f"streams with end of speech → final p95 ≤ {1e3 * LIMIT:.0f} ms", most
    )


def _add(bench: Bench, heard: Heard) -> None:
    name, who = f"held.{heard.streams}", f"{heard.streams} streams: end of speech → final"
    bench.add(f"{name}.p50", f"{who} p50", 1e3 * heard.p(50), "ms")
    bench.add(f"{name}.p95", f"{who} p95", 1e3 * heard.p(95), "ms", heard.note())


def _seconds(bench: Bench) -> float:
    return SECONDS * min(1.0, bench.options.count / 300)

"""Microphones over real WebSockets on a server of its own: how many keep their finals in time."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from edge_runtime.bench.manifest import Clip
from edge_runtime.bench.percentile import percentile
from edge_runtime.bench.server import Server, started
from edge_runtime.bench.together import Heard, together
from gpu_bench.bench import Bench

STREAMS = (128, 256, 300)
SECONDS = 8.0
LIMIT = 750.0
"""ms from the end of speech to its final that 95 % keep, endpoint 500 ms included."""

CLIENTS = 6
"""Processes that speak: one alone would be busier than the server."""

CLIPS = 24
"""The shortest, so that enough of them end meanwhile."""


def measure(bench: Bench) -> None:
    """Adds `sockets.*`, float16 (float32 on a CPU)."""
    options = bench.options
    clips = [
        Clip(each.id, options.clips / each.file, each.transcript, "clean")
        for each in sorted(bench.clips.all, key=lambda clip: clip.samples)[:CLIPS]
    ]
    wanted = [
        *("--model", options.model, "--device", options.device),
        *("--max-sessions", str(max(STREAMS) + 8)),
    ]
    most = 0
    with (
        started(wanted) as server,
        ProcessPoolExecutor(CLIENTS, multiprocessing.get_context("spawn")) as pool,
    ):
        bench.say(f"the server is ready after {server.ready_after:.1f} s")
        for streams in STREAMS:
            heard = _heard(pool, server, clips, streams, _seconds(bench))
            _add(bench, heard)
            if not heard.holds(LIMIT):
                break
            most = streams
    bench.add(
        "sockets.streams", f"over sockets: streams with final p95 ≤ {LIMIT:.0f} ms", most, "",
        f"of {', '.join(map(str, STREAMS))}",
    )  # fmt: skip


def _heard(
    pool: ProcessPoolExecutor, server: Server, clips: Sequence[Clip], streams: int, seconds: float
) -> Heard:
    """What all of them met, in so many processes."""
    shares = [streams // CLIENTS + (n < streams % CLIENTS) for n in range(CLIENTS)]
    # Its processor time is asked for by one.
    servers = [server, *[replace(server, process=None)] * (CLIENTS - 1)]
    works = [
        pool.submit(_speak, each, list(clips), share, seconds, seed)
        for seed, (each, share) in enumerate(zip(servers, shares, strict=True))
        if share
    ]
    whole = Heard(streams, seconds)
    for found in (work.result() for work in works):
        whole.finals += found.finals
        whole.firsts += found.firsts
        whole.late += found.late
        whole.failed += found.failed
        whole.level = max(whole.level, found.level)
        whole.clients += found.clients
        whole.cpu = found.cpu if whole.cpu is None else whole.cpu
    return whole


def _speak(server: Server, clips: list[Clip], streams: int, seconds: float, seed: int) -> Heard:
    heard = Heard(streams, seconds)
    asyncio.run(together(server, clips, heard, lambda: None, seed))
    return heard


def _add(bench: Bench, heard: Heard) -> None:
    name, who = f"sockets.{heard.streams}", f"{heard.streams} streams over sockets"
    note = (
        f"{len(heard.finals)} finals, {heard.late} late, {len(heard.failed)} failed; server "
        f"{heard.cpu or 0:.2f} cores, clients {heard.clients:.2f}; ladder {heard.level}"
    )
    for q in (50, 95):
        told = percentile(heard.finals, q)
        bench.add(f"{name}.p{q}", f"{who}: end of speech → final p{q}", told, "ms", note)
    first = percentile(heard.firsts, 95)
    bench.add(f"{name}.first.p95", f"{who}: onset → first partial p95", first, "ms")


def _seconds(bench: Bench) -> float:
    return SECONDS * min(1.0, bench.options.count / 300)

"""Many streams on one device: one by one, in batches of a fixed size, and as the scheduler does."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from edge_runtime.audio import RATE
from edge_runtime.config import Config
from edge_runtime.decode import pricing, scheduler
from edge_runtime.decode.costs import Cost, Costs
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Size
from edge_runtime.decode.update import Purpose, Update, limit
from edge_runtime.runtime import TURN
from edge_runtime.session import longest
from gpu_bench import bed, timing
from gpu_bench.bed import Bed
from gpu_bench.bench import Bench
from gpu_bench.crowd import Crowd, Met, Work

ROWS = 32
"""The largest batch that is tried, where the engine takes it."""

SESSIONS = 64
HOP = 0.3
"""Seconds of audio between two updates of a stream, and of the clock where they are paced."""

SECONDS = 4.0
"""For which each way is measured."""

UPDATES = 192
"""Different ones: hops of clips, each with what was said at the hop before for its draft."""

TURNS = 3
"""Times that ways which are compared are measured, one after the other."""

LANES = (1, 2, 3, 4)
STATIC = (1, 2, 4, 8, 16, 32)
NEAR = {"fp32": 1e-3, "fp16": 0.1}
"""Margins below which the best token is a matter of rounding."""

LIKENESS = (0.0, 0.25, 0.7)
PACES = (0.25, 0.05)
"""Seconds between the updates of a stream, for the table: 256 and 1280 a second."""


def measure(bench: Bench) -> None:
    """Adds `batch.*`, float16 (float32 on a CPU)."""
    with timing.turns_kept():
        sys.setswitchinterval(TURN)
        _measure(bench)


def _measure(bench: Bench) -> None:
    precision = bench.precisions[-1]
    most = max(longest(Config()), 8 * RATE)
    made = bed.make(bench.options, precision, Size(ROWS, most, ROWS * 8 * RATE))
    bench.kept.append(made)
    lane = made.runner.lane
    bench.say(f"{made.runner.size}, {len(lane.graphs)} graphs, warm in {made.warming:.1f} s")
    costs = pricing.price(lane)
    bench.attempt("batches costs", _costs, bench, made, costs)
    work = _work(bench, made)
    bench.attempt("batches same", _same, bench, made, work)
    runners = [made.runner, *(_another(made) for _ in range(max(LANES) - 1))]
    if not bench.attempt("batches rate", _rate, bench, runners, costs, work):
        return
    bench.attempt("batches single", _single, bench, runners[:2], costs, work)
    bench.attempt("batches table", _table, bench, runners[:2], costs, work)


def _another(made: Bed) -> Runner:
    runner = made.another()
    runner.warm()
    return runner


def _costs(bench: Bench, made: Bed, costs: Costs) -> None:
    for each in costs.table:
        _cost(bench, made, each, "")
    if not made.loaded.chain.has_own:
        return
    lane = made.runner.lane
    for rows in (1, 4, lane.size.rows):
        samples = lane.buckets.samples(6 * RATE)
        if lane.size.fits(rows, samples):
            _cost(bench, made, pricing.cost(lane, rows, samples, tiled=True), ".tiles")


def _cost(bench: Bench, made: Bed, each: Cost, way: str) -> None:
    bench.add(
        f"batch.cost.{each.rows}.{each.samples // RATE}{way}",
        f"a batch of {each.rows} × {each.samples / RATE:.1f} s{', tiles' if way else ''}",
        1e3 * each.update,
        "ms",
        f"encode {1e3 * each.encode:.3f}, check {1e3 * each.check:.3f}, a step "
        f"{1e3 * each.step:.3f} ms; {each.rows / max(each.update, 1e-9):.0f} updates/s",
    )


def _work(bench: Bench, made: Bed) -> list[Work]:
    """Updates as streams ask for them, in the clips' order, finals among them."""
    found: list[Work] = []
    hop = int(HOP * RATE)
    for clip in bench.clips.all:
        audio = bench.clips.audio(clip)[: made.runner.size.samples]
        memory = made.device.alloc((len(audio),), np.float32, "mapped").host
        memory[...] = audio
        draft: tuple[int, ...] = ()
        ends = [*range(RATE // 2, len(audio), hop), len(audio)]
        # Not all hops of few clips, but some of all.
        for place, end in enumerate(ends):
            said = made.decode([memory[:end]], draft).tokens
            if place % 8 == len(found) % 8 or end == len(audio):
                final = end == len(audio)
                purpose = Purpose.FINAL if final else Purpose.PARTIAL
                most = limit(made.loaded.chain.shape.tokens_per_second * end / RATE)
                update = Update("crowd", 0, purpose, 0, end, draft, limit=most)
                found.append(Work(update, (memory[:end],)))
            draft = said
        if len(found) >= UPDATES:
            break
    return found


def _met(
    runners: Sequence[Runner], work: Sequence[Work], sessions: int, costs: Costs, rows: int,
    *, every: float = 0.0, static: bool = False, seconds: float,
) -> Met:  # fmt: skip
    crowd = Crowd(runners, work, sessions, costs=costs, rows=rows, static=static)
    return crowd.run(seconds, every)


def _same(bench: Bench, made: Bed, work: Sequence[Work]) -> None:
    """Rows of batches, each of its own length, against the same updates alone."""
    size, buckets = made.runner.size, made.buckets
    left = sorted(work, key=lambda each: each.update.end)
    apart, excused, tokens = [], 0, 0
    while left:
        rows = buckets.rows(min(size.rows, len(left)))
        while not size.fits(rows, buckets.samples(left[-1].update.end)):
            rows = max(each for each in buckets.row_sizes if each < rows)
        some, left = left[-rows:], left[:-rows]
        found = made.runner.run([each.update for each in some], [each.audio for each in some])
        for each, together in zip(some, found, strict=True):
            (alone,) = made.runner.run([each.update], [each.audio])
            tokens += len(alone.tokens)
            pairs = enumerate(zip(alone.tokens, together.tokens, strict=False))
            at = next((place for place, (one, two) in pairs if one != two), None)
            if at is None:
                continue
            near = min(alone.margins[at], together.margins[at]) < NEAR[made.precision]
            excused += near
            apart += [] if near else [f"{each.update.end} samples at {at}"]
    note = f"of {tokens} tokens of {len(work)} updates; {excused} where two best nearly tie"
    bench.add("batch.different", "updates that a batch says otherwise", len(apart), "", note)
    for line in apart[:5]:
        bench.say(line)


def _seconds(bench: Bench) -> float:
    """As long as is asked for: a CPU only shows that the row works."""
    return SECONDS * min(1.0, bench.options.count / 300)


def _told(met: Met) -> str:
    return (
        f"{met.mean:.1f} rows a batch, {met.device / met.took:.2f} lanes at work, {met.host:.2f} "
        f"cores of the host; latency p50 "
        f"{met.times.ms:.1f}, p99 {1e3 * met.times.at(99):.1f} ms; "
        f"{100 * met.deferred / max(1, len(met.latency)):.0f} % went on in another batch"
    )


def _rate(bench: Bench, runners: Sequence[Runner], costs: Costs, work: Sequence[Work]) -> None:
    """What a device gives that is never idle, by its lanes and rows."""
    rows = runners[0].size.rows
    seconds = [len(each.audio[0]) / RATE for each in work]
    note = (
        f"{len(work)} updates of {len(bench.clips.all)} clips, {np.mean(seconds):.1f} s on average"
    )
    # What was not captured at warm-up is captured now.
    _met(runners, work, SESSIONS, costs, rows, seconds=_seconds(bench) / 2)
    for lanes in LANES:
        one, many = _in_turns(runners[:lanes], work, costs, rows, _seconds(bench))
        bench.add(
            f"batch.one.{lanes}", f"{SESSIONS} streams, {lanes} lanes, one by one: updates",
            one.rate, "/s", f"{_told(one)}; {note}",
        )  # fmt: skip
        bench.add(
            f"batch.adaptive.{lanes}", f"{SESSIONS} streams, {lanes} lanes, adaptive: updates",
            many.rate, "/s", _told(many),
        )  # fmt: skip
    misses = [runner.lane.graphs.use.misses for runner in runners]
    bench.say(f"graphs made: {misses}, kept {[len(runner.lane.graphs) for runner in runners]}")
    for alike in LIKENESS:
        with bed.changed(scheduler, "ALIKE", alike):
            met = _met(runners[:2], work, SESSIONS, costs, rows, seconds=_seconds(bench) / 2)
        bench.add(
            f"batch.alike.{alike}", f"adaptive, rows no shorter than {alike} of the longest",
            met.rate, "/s", _told(met),
        )  # fmt: skip
    for lanes in LANES:
        many, one = (bench.needed(f"batch.{way}.{lanes}") for way in ("adaptive", "one"))
        said = "one lane: one update at a time" if lanes == 1 else f"{lanes} lanes"
        bench.add(f"batch.times.{lanes}", f"adaptive over one by one, {said}", many / one, "×")


def _in_turns(
    runners: Sequence[Runner], work: Sequence[Work], costs: Costs, rows: int, seconds: float
) -> tuple[Met, Met]:
    """One by one, and in batches, for so long each: a machine is not as quick all the time."""
    one: list[Met] = []
    many: list[Met] = []
    for _ in range(TURNS):
        for most, met in ((1, one), (rows, many)):
            met.append(_met(runners, work, SESSIONS, costs, most, seconds=seconds / TURNS))
    return Met.of(one), Met.of(many)


def _single(bench: Bench, runners: Sequence[Runner], costs: Costs, work: Sequence[Work]) -> None:
    """One stream alone: it must not pay for what the many gain."""
    rows = runners[0].size.rows
    p99 = {}
    for name, most in (("one", 1), ("adaptive", rows)):
        met = _met(runners, work, 1, costs, most, seconds=_seconds(bench))
        p99[name] = 1e3 * met.times.at(99)
        bench.add(f"batch.single.{name}", f"one stream, {name}: p99", p99[name], "ms", _told(met))
    bench.add(
        "batch.single.worse", "p99 of a single stream, adaptive less one by one",
        p99["adaptive"] - p99["one"], "ms",
    )  # fmt: skip


def _table(bench: Bench, runners: Sequence[Runner], costs: Costs, work: Sequence[Work]) -> None:
    """Static sizes and adaptive, saturated and at paces that stream keep."""
    rows = runners[0].size.rows
    for every in (0.0, *PACES):
        ways = [(f"static.{size}", size, True) for size in STATIC if size <= rows]
        for name, size, static in [*ways, ("adaptive", rows, False)]:
            table = Costs() if static else costs
            seconds = _seconds(bench) / 2
            met = _met(
                runners, work, SESSIONS, table, size, every=every, static=static, seconds=seconds
            )
            pace = f"{SESSIONS / every:.0f}" if every else "all"
            bench.add(
                f"batch.table.{pace}.{name}",
                f"{name}, {pace} updates/s asked for: p99 latency",
                1e3 * met.times.at(99),
                "ms",
                f"{met.rate:.0f}/s, {_told(met)}",
            )

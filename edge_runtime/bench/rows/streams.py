"""How many streams at once keep their finals in time, foretold and then measured."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from edge_runtime.bench.appraisal import costs
from edge_runtime.bench.bench import Bench
from edge_runtime.bench.capacity import Foretold, foretold, largest, record, surely
from edge_runtime.bench.costs import Costs
from edge_runtime.bench.course import Course, courses
from edge_runtime.bench.judge import judge
from edge_runtime.bench.manifest import Clip
from edge_runtime.bench.met import Met
from edge_runtime.bench.rehearsal import Rehearsal
from edge_runtime.bench.spent import Spent
from edge_runtime.bench.together import SETTLE, TAIL, Heard, order, together
from edge_runtime.config import Config, load, suited
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from edge_runtime.runtime.ladder import STEPS

FEW = 4
"""Streams that tell what each one more costs besides its updates."""

PART = 0.5
"""Of the number that one stream and a few foretell: so many tell how lanes slow each other."""

GROWTH = 1.25
"""From a number that held to the next one that is tried, as long as none did not."""

BUSY = 0.05
"""Processors that others may use: more is told beside the figures."""

NEAR = 0.05
"""Part of the number that the search leaves open: a minute tells it no better."""


def measure(bench: Bench) -> None:
    """Adds `streams`, `streams.predicted`, `streams.off`, and `streams.N.*` of each number.

    One stream alone, a few together and half of what these foretell tell the costs; what comes of
    them is in the log before another number is measured. Without `auto`, that of `--streams` is
    the only one.
    """
    crowd = bench.options.crowd
    run = _Run(bench, bench.some(bench.manifest.clean), Log(crowd.log))
    spent = run.costs()
    if bench.interrupted():
        return
    if spent is None:
        raise EdgeRuntimeError(
            "one stream alone ended without a final, so nothing can be foretold",
            "Choose clips with speech, or give it more --seconds.",
        )
    wanted = 0 if crowd.auto else bench.options.streams
    most = run.foretell(spent, wanted)
    bench.add("streams.predicted", "streams foretold from the cost of few", most)
    if wanted:
        run.number(wanted)
    else:
        run.search(most)


class Log:
    """One JSON object a line, on the disk once it is written."""

    def __init__(self, path: Path) -> None:
        """Starts the file anew. Raises `ConfigError` where it cannot be written."""
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be written: {error.strerror}", "Give --streams-log another path."
            ) from None

    def write(self, kind: str, **said: Any) -> None:
        """Another line."""
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "at": now, **said}) + "\n")
            file.flush()
            os.fsync(file.fileno())


class _Run:
    """The numbers that are tried, each on a server that has met no other: one that was too many
    leaves the ladder high for a while."""

    def __init__(self, bench: Bench, clips: Sequence[Clip], log: Log) -> None:
        self._bench = bench
        self._clips = clips
        self._log = log
        self._heard: dict[int, Heard] = {}
        self._spent: dict[int, Spent] = {}
        self._health: dict[str, Any] = {}

    def costs(self) -> Costs | None:
        """What one stream takes and a few do; nothing where it was interrupted too early."""
        alone = self.number(1)
        if not alone.finals or self._bench.interrupted():
            return None
        heard = [alone]
        few = min(FEW, self._bench.options.crowd.most)
        if alone.level == 0 and few > 1:
            heard.append(self.number(few))
        if heard[-1].level or not heard[-1].finals:  # more than it keeps up with: costs stretch
            del heard[1:]
        found = self._costs(heard)
        half = int(PART * self._most(found))
        if half > heard[-1].streams and not self._bench.interrupted():
            several = self.number(half)
            if several.holds(self._bench.options.crowd.limit):
                found = self._costs([*heard, several])
        return found

    def _costs(self, heard: Sequence[Heard]) -> Costs:
        return costs(
            [self._spent[each.streams] for each in heard],
            lambda spent, one: self._rehearse(spent, one.streams),
            on_cpu=self._health.get("device", "cpu") == "cpu",
            lanes=int((self._health.get("load") or {}).get("lanes") or 1),
            cores=os.cpu_count() or 1,
        )

    @cached_property
    def _config(self) -> Config:
        """What the server goes by, what suits its calibrated model included."""
        config = load(self._bench.options.config)
        return suited(config, self._health.get("settings") or {}, "the server")

    @cached_property
    def _courses(self) -> list[Course]:
        return courses(self._clips, judge, self._config.listening)

    def _rehearse(self, spent: Costs, streams: int) -> Met:
        """What so many would meet of the very clips that they will play."""
        mean, until = _mean(self._clips), self._bench.options.crowd.seconds + SETTLE
        turns = [order(self._courses, mean, streams, number) for number in range(streams)]
        return Rehearsal(spent, turns, self._config).run(SETTLE, until, until + TAIL)

    def _most(self, spent: Costs, tried: dict[int, Foretold] | None = None, wanted: int = 0) -> int:
        """The most that should hold; what was `tried` is added there, and `wanted` is tried too."""
        crowd = self._bench.options.crowd
        seconds = SETTLE + crowd.seconds + TAIL
        tried = {} if tried is None else tried

        def holds(streams: int) -> bool:
            if streams not in tried:
                tried[streams] = foretold(streams, self._rehearse(spent, streams), seconds)
            # On the last step nobody new comes in, and every clip is somebody new.
            return tried[streams].p95 <= crowd.limit / 1000 and STEPS[tried[streams].level].admits

        if wanted:
            holds(wanted)
        return surely(holds, crowd.most)

    def foretell(self, spent: Costs, wanted: int = 0) -> int:
        """The most that should hold; it is in the log with what was expected on the way to it."""
        crowd = self._bench.options.crowd
        tried: dict[int, Foretold] = {}
        most = self._most(spent, tried, wanted)
        expected = [record(tried[streams]) for streams in sorted(tried)]
        self._log.write(
            "prediction",
            streams=most,
            limit_ms=crowd.limit,
            expected=expected,
            costs=asdict(spent),
        )
        return most

    def number(self, streams: int) -> Heard:
        """So many, for as long as was asked; into the log and the figures."""
        bench = self._bench
        if streams in self._heard:
            return self._heard[streams]
        heard = Heard(streams, bench.options.crowd.seconds)
        label = f"{streams} stream{'s' if streams > 1 else ''}"
        with bench.server("--max-sessions", str(bench.options.crowd.most)) as server:
            before = server.scrape()
            with bench.bar(label, round(SETTLE + heard.seconds + TAIL)) as step:
                bench.run(together(server, self._clips, heard, step))
            grown = server.scrape() - before
            self._health = server.health()
        seconds = SETTLE + heard.seconds + TAIL
        self._spent[streams] = spent = Spent(
            streams,
            seconds,
            grown,
            seconds * (heard.cpu or 0.0),
            seconds * heard.clients,
            tuple(wait / 1000 for wait in heard.finals),
            tuple(heard.rests),
        )
        self._heard[streams] = heard
        heard.cut = bench.interrupted()
        limit = bench.options.crowd.limit
        self._log.write(
            "measured",
            **heard.record(),
            lanes=spent.lanes / seconds,
            updates=spent.record(),
            held=heard.holds(limit) and not heard.cut,
        )
        _add(bench, heard)
        return heard

    def search(self, foretold: int) -> None:
        """Find the most that hold, from what was foretold on, and compare."""
        bench, crowd = self._bench, self._bench.options.crowd
        best = 0

        def holds(streams: int) -> bool:
            nonlocal best
            if bench.interrupted():
                return False
            heard = self.number(streams)
            held = heard.holds(crowd.limit) and not heard.cut
            best = max(best, streams * held)
            return held

        largest(holds, crowd.most, self._told, first=max(1, foretold), growth=GROWTH, near=NEAR)
        cut = ", interrupted: at least" if bench.interrupted() else ""
        bench.add(
            "streams",
            f"streams with end of speech → final p95 ≤ {crowd.limit} ms",
            best,
            "",
            f"{crowd.seconds} s each{cut}",
        )
        if bench.interrupted():
            return
        off = 100 * abs(foretold - best) / best if best else None
        bench.add("streams.off", "foretold off what was measured", off, "%")
        self._log.write("result", streams=best, predicted=foretold, off_percent=off)

    def _told(self, low: int, high: int | None) -> None:
        said = f"at least {low}" + (f", fewer than {high}" if high else "")
        self._bench.progress.console.print(f"streams: {said}", style="dim")


def _mean(clips: Sequence[Clip]) -> float:
    return sum(clip.seconds for clip in clips) / len(clips)


def _add(bench: Bench, heard: Heard) -> None:
    found, name = heard.record(), f"streams.{heard.streams}"
    who = f"{heard.streams} streams: " if heard.streams > 1 else "1 stream: "
    note = f"{found['finals']} finals" + (f", {heard.late} not waited for" if heard.late else "")
    note += f"; {len(heard.failed)} failed: {heard.failed[0]}" if heard.failed else ""
    for q in (50, 95):
        value = found[f"final.p{q}"]
        bench.add(f"{name}.final.p{q}", f"{who}end of speech → final p{q}", value, "ms", note)
    for q in (50, 95):
        value = found[f"first.p{q}"]
        bench.add(f"{name}.first.p{q}", f"{who}first partial after onset p{q}", value, "ms")
    bench.add(f"{name}.level", f"{who}step of the ladder that was reached", heard.level)
    clients = f"and {heard.clients:.2f} of the clients"
    clients += f", {heard.others:.2f} of others" if (heard.others or 0.0) >= BUSY else ""
    bench.add(f"{name}.cpu", f"{who}processors the server uses", heard.cpu, "cores", clients)

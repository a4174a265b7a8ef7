"""How many streams at once keep their finals in time, foretold and then measured."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edge_runtime.bench.bench import Bench
from edge_runtime.bench.capacity import Foretold, largest, predict, record
from edge_runtime.bench.costs import Costs, Spent, costs
from edge_runtime.bench.manifest import Clip
from edge_runtime.bench.server import Server
from edge_runtime.bench.together import SETTLE, TAIL, Heard, together, turns
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from edge_runtime.runtime.ladder import STEPS

FEW = 4
"""Streams that tell what each one more costs besides its updates."""

GROWTH = 1.25
"""From a number that held to the next one that is tried, as long as none did not."""

NEAR = 0.05
"""Part of the number that the search leaves open: a minute tells it no better."""


def measure(bench: Bench) -> None:
    """Adds `streams`, `streams.predicted`, `streams.off`, and `streams.N.*` of each number.

    One stream alone and a few together tell the costs; what they foretell is in the log before
    another number is measured. Without `auto`, that of `--streams` is the only one.
    """
    crowd = bench.options.crowd
    clips = bench.some(bench.manifest.clean)
    log = Log(crowd.log)
    with bench.server("--max-sessions", str(crowd.most)) as server:
        run = _Run(bench, server, clips, log)
        spent = run.costs()
        if bench.interrupted():
            return
        if spent is None:
            raise EdgeRuntimeError(
                "one stream alone ended without a final, so nothing can be foretold",
                "Choose clips with speech, or give it more --seconds.",
            )
        wanted = 0 if crowd.auto else bench.options.streams
        foretold = _foretold(spent, crowd.limit, crowd.most, wanted)
        log.write("prediction", **foretold, costs=asdict(spent))
        bench.add("streams.predicted", "streams foretold from the cost of few", foretold["streams"])
        if wanted:
            run.number(wanted)
        else:
            run.search(foretold["streams"])


def _foretold(spent: Costs, limit: float, most: int, wanted: int) -> dict[str, Any]:
    """The number that should hold, and what was expected on the way to it."""
    tried: dict[int, Foretold] = {}

    def holds(streams: int) -> bool:
        tried[streams] = predict(spent, streams)
        # On the last step nobody new comes in, and every clip is somebody new.
        return 1000 * tried[streams].p95 <= limit and STEPS[tried[streams].level].admits

    found = largest(holds, most)
    if wanted and wanted not in tried:
        tried[wanted] = predict(spent, wanted)
    return {
        "streams": found,
        "limit_ms": limit,
        "expected": [record(tried[streams]) for streams in sorted(tried)],
    }


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
    """The numbers that are tried on one server."""

    def __init__(self, bench: Bench, server: Server, clips: Sequence[Clip], log: Log) -> None:
        self._bench = bench
        self._server = server
        self._clips = clips
        self._log = log
        self._heard: dict[int, Heard] = {}
        self._spent: dict[int, Spent] = {}

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
        health = self._server.health()
        talks, pauses = turns(self._clips, [pause for each in heard for pause in each.rests])
        spent = costs(
            [self._spent[each.streams] for each in heard],
            [wait / 1000 for each in heard for wait in each.finals],
            talks,
            pauses,
            on_cpu=health.get("device", "cpu") == "cpu",
        )
        return replace(
            spent,
            lanes=int((health.get("load") or {}).get("lanes") or 1),
            cores=os.cpu_count() or 1,
        )

    def number(self, streams: int) -> Heard:
        """So many, for as long as was asked; into the log and the figures."""
        bench = self._bench
        if streams in self._heard:
            return self._heard[streams]
        heard = Heard(streams, bench.options.crowd.seconds)
        label = f"{streams} stream{'s' if streams > 1 else ''}"
        before = self._server.scrape()
        with bench.bar(label, round(SETTLE + heard.seconds + TAIL)) as step:
            bench.run(together(self._server, self._clips, heard, step))
        grown = self._server.scrape() - before
        seconds = SETTLE + heard.seconds + TAIL
        self._spent[streams] = Spent(
            streams, seconds, grown, seconds * (heard.cpu or 0.0), seconds * heard.clients
        )
        self._heard[streams] = heard
        heard.cut = bench.interrupted()
        limit = bench.options.crowd.limit
        self._log.write(
            "measured",
            **heard.record(),
            lanes=self._spent[streams].lanes / seconds,
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
    bench.add(f"{name}.cpu", f"{who}processors the server uses", heard.cpu, "cores", clients)

"""The command line of tools/faults, and its log."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edge_runtime.bench.hardware import hardware
from edge_runtime.bench.manifest import read
from injection import processes
from injection.clients import FAULTS, Spoken
from injection.drill import Found, drill, slope, spoken
from injection.house import house

IDLE = 4.0
SLOPE = 1 << 20
"""Bytes that the process may grow by in 1,000 faults, over all kinds but the first."""

ENOUGH = 2000
"""Faults below which that is noise."""

FEW = ("memory", *processes.PROCESSES)
KINDS = (*FAULTS, *processes.PROCESSES)


class Log:
    """A line of JSON for each thing that is known, at once on the disk."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def write(self, **said: Any) -> None:
        self._file.write(json.dumps(said, ensure_ascii=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def clips(manifest: Path, most: float = 8.0) -> list[tuple[str, bytes]]:
    """The clean clips that are short enough, as 16-bit bytes."""
    found = []
    for clip in read(manifest).clean:
        if clip.seconds <= most:
            wire = (np.clip(clip.pcm, -1, 32767 / 32768) * 32768).round().astype("<i2")
            found.append((clip.name, wire.tobytes()))
    return found


async def run(
    counts: dict[str, int], said_by: Sequence[tuple[str, bytes]], seed: str, log: Log, at_once: int
) -> list[Found]:
    """So many of each kind; each is logged when it is through."""
    found = []
    async with house(idle=IDLE, blocked=IDLE) as server:
        said = await spoken(server, said_by)
        log.write(kind="spoken", texts={each.name: each.text for each in said})
        for kind in FAULTS:
            if counts.get(kind):
                began = time.monotonic()
                found.append(await drill(server, kind, counts[kind], said, seed, at_once))
                server.plan.watched.clear()
                _tell(log, found[-1], time.monotonic() - began)
    for kind in processes.PROCESSES:
        if counts.get(kind):
            began = time.monotonic()
            found.append(await ended(kind, counts[kind], said, seed))
            _tell(log, found[-1], time.monotonic() - began)
    return found


async def ended(
    kind: str, count: int, said: Sequence[Spoken], seed: str, slack: float = 0.0
) -> Found:
    """So many servers of their own, one after the other; `slack` seconds more to end."""
    found = Found(kind)
    for number in range(count):
        chance = random.Random(f"{seed}.{kind}.{number}")
        try:
            problem = await processes.PROCESSES[kind](said, chance, slack)
        except Exception as error:  # noqa: BLE001 – the next one may tell more
            problem = repr(error)
        found.count += 1
        found.problems += [problem] if problem else []
    return found


def growth(found: Sequence[Found]) -> float | None:
    """Resident bytes in 1,000 faults, after the first kind; None where they are too few."""
    points: list[tuple[int, int]] = []
    done = 0
    for each in found[1:]:
        points += [(done + count, resident) for count, resident in each.resident]
        done += each.count if each.resident else 0
    steep = slope(points) if done >= ENOUGH else None
    return None if steep is None else 1000 * steep


def _tell(log: Log, found: Found, seconds: float) -> None:
    log.write(**{**found.record(), "seconds": round(seconds, 1)})
    wrong = len(found.problems)
    met = f", {found.met} met" if found.met else ""
    said = f"{wrong} problems: {found.problems[0]}" if wrong else "nothing wrong"
    print(f"{found.kind:<10} {found.count:>5}{met} in {seconds:.0f} s: {said}", flush=True)


def main() -> int:
    """The exit code: 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description="Injects faults into a real server.")
    parser.add_argument("manifest", type=Path, help="clips, as edge-runtime bench takes them")
    parser.add_argument("--many", type=int, default=1000, help="of each kind but those below")
    parser.add_argument("--few", type=int, default=50, help=f"of {', '.join(FEW)}")
    parser.add_argument("--kinds", default="", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--seed", default="", help="a run again; default: by chance")
    parser.add_argument("--together", type=int, default=24, help="faults at a time")
    parser.add_argument("--longest", type=float, default=8.0, help="seconds of a clip")
    parser.add_argument("--log", type=Path, default=Path("faults.jsonl"))
    given = parser.parse_args()
    kinds = [kind for kind in given.kinds.split(",") if kind] or list(KINDS)
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"no kind is called {unknown.pop()}; there are {', '.join(KINDS)}")
    counts = {kind: given.few if kind in FEW else given.many for kind in kinds}
    seed = given.seed or str(random.SystemRandom().randrange(1 << 32))
    log = Log(given.log)
    log.write(kind="run", seed=seed, counts=counts, hardware=hardware().record())
    print(f"seed {seed}", flush=True)
    found = asyncio.run(
        run(counts, clips(given.manifest, given.longest), seed, log, given.together)
    )
    wrong = sum(len(each.problems) for each in found)
    grown = growth(found)
    log.write(kind="result", problems=wrong, bytes_a_thousand=grown)
    if grown is not None:
        print(f"resident memory: {grown / 2**20:+.2f} MB in 1,000 faults", flush=True)
        wrong += grown > SLOPE
    log.close()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

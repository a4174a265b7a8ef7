"""The same clip gives the same events: in a fresh process, after others, beside others."""

from __future__ import annotations

from collections.abc import Sequence

from edge_runtime.bench.bench import Bench
from edge_runtime.bench.client import Playing
from edge_runtime.bench.manifest import Clip, spread
from edge_runtime.bench.take import Take
from edge_runtime.errors import ConfigError

PROBES = 3
BEFORE = 50
BESIDE = 3
_FINALS = Playing(paced=False, partials=False, words=True)


def measure(bench: Bench) -> None:
    """Adds `same.*`: events that differ in anything but their time of arrival."""
    if bench.options.url:
        raise ConfigError("the row same needs processes of its own", "Leave --url out.")
    probes = spread(bench.manifest.clean, PROBES)
    others = [c for c in bench.some(bench.manifest.clean) if c not in probes] or list(probes)
    fresh, again = _alone(bench, probes), _alone(bench, probes)
    if bench.interrupted():
        return
    with bench.server() as server:
        bench.play(server.url, others[:BEFORE], _FINALS, "clips before")
        after = bench.play(server.url, probes, _FINALS, "after others", 1)
        beside: list[Take] = []
        for i, probe in enumerate(probes):
            company = [others[(i * BESIDE + k) % len(others)] for k in range(BESIDE)]
            beside += bench.play(server.url, [probe, *company], _FINALS, "beside others", 4)[:1]
    if bench.interrupted():
        return
    note = f"{len(probes)} clips, {sum(len(take.log()) for take in fresh)} events"
    bench.add(
        "same.fresh", "events that differ, two fresh processes", differing(fresh, again), "", note
    )
    bench.add(
        "same.after",
        f"events that differ, after {len(others[:BEFORE])} clips",
        differing(fresh, after),
        "",
        note,
    )
    bench.add(
        "same.beside",
        f"events that differ, beside {BESIDE} streams",
        differing(fresh, beside),
        "",
        note,
    )


def _alone(bench: Bench, probes: Sequence[Clip]) -> list[Take]:
    """Each clip in a process that has heard nothing before."""
    takes: list[Take] = []
    for probe in probes:
        if not bench.interrupted():
            with bench.server() as server:
                takes += bench.play(server.url, [probe], _FINALS, "a fresh process", 1)
    return takes


def differing(one: Sequence[Take], other: Sequence[Take]) -> int:
    """Events that are not alike byte for byte, missing and additional ones included."""
    count = abs(len(one) - len(other))
    for left, right in zip(one, other, strict=False):
        ours, theirs = left.log(), right.log()
        count += abs(len(ours) - len(theirs))
        count += sum(a != b for a, b in zip(ours, theirs, strict=False))
    return count

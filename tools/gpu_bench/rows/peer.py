"""Moonshine of `transformers` in PyTorch on the same GPU, float16: the same work, and generate."""

from __future__ import annotations

import importlib.util
import json

from edge_runtime.bench.figure import Figure
from edge_runtime.errors import MissingExtra
from gpu_bench import child
from gpu_bench.bench import Bench
from gpu_bench.rows import passes

PATIENCE = 150.0
"""Seconds for all that PyTorch compiles."""

EQUAL = ("peer.graph", "peer.compiled", "peer.captured")
"""Ways to the same result; the fastest is what ours is held against."""


def measure(bench: Bench) -> None:
    """Adds `peer.*`, and how many times as fast ours is as its best of equal work."""
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtra(f"{name} is not installed", f"Run: pip install {name}")

    def heard(line: str) -> None:
        if not line.startswith("{"):
            bench.say(line)
            return
        told = json.loads(line)
        if "failed" in told:
            bench.failed[f"peer {told['failed']}"] = told["why"]
            bench.say(f"{told['failed']} FAILED: {told['why']}")
        else:
            bench.take(Figure(**told))

    command = child.python("peer", "--model", bench.options.model)
    went = bench.attempt("peer", child.lines, command, heard, PATIENCE)
    _compare(bench)
    if not went and not any(bench.figures.value(name) for name in EQUAL):
        bench.needed(EQUAL[0])


def _compare(bench: Bench) -> None:
    known = {name: value for name in EQUAL if (value := bench.figures.value(name)) is not None}
    if not known:
        return
    best = min(known, key=lambda name: known[name])
    ours = passes.work(bench, "fp16")
    bench.add(
        "peer.times",
        "encoder and draft check of 25 tokens: PyTorch's time over ours",
        known[best] / ours,
        "×",
        f"{known[best]:.3g} ms ({best}) over {ours:.3g} ms",
    )
    update = bench.figures.value("update.fp16.p50")
    for name in ("peer.generate", "peer.static"):
        theirs = bench.figures.value(name)
        if update is not None and theirs is not None:
            bench.add(
                f"{name}.times",
                f"{name} of 25 tokens over one update of ours",
                theirs / update,
                "×",
                f"{theirs:.3g} ms over {update:.3g} ms",
            )

"""A server's start from the store against a build and then the start, in fresh processes."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from edge_runtime.bench.server import arguments, started
from edge_runtime.device.tensorrt.module import FLAVOURS
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.engines.store import Store
from gpu_bench import child
from gpu_bench.bench import Bench

TIMES = 2
PATIENCE = 150.0


def measure(bench: Bench) -> None:
    """Adds `start.*`, float16."""
    options = bench.options
    serve = arguments(options.model, options.device, None)
    with _variables(child.environment({"EDGE_RUNTIME_COMPUTING_PRECISION": "fp16"})):
        stored = [_ready(serve) for _ in range(TIMES)]
        bench.add(
            "start.stored",
            "from the start of `serve` until it is ready, engine and caches in the store",
            min(stored),
            "s",
            f"{', '.join(f'{each:.2f}' for each in stored)} s",
        )
        with _empty(options.model) as root, _variables({"EDGE_RUNTIME_STORE": str(root)}):
            flavour = bench.hardware.get("gpu", {}).get("tensorrt", "")
            built = _build(bench, flavour)
            cold = _ready(serve)
    bench.add("start.built", "build, float16, into a store that has the weights", built, "s")
    bench.add("start.cold", "the first start after it, caches absent", cold, "s")
    bench.add(
        "start.share",
        "start from the store, of build and first start",
        100 * min(stored) / (built + cold),
        "%",
        f"{min(stored):.2f} s of {built:.2f} + {cold:.2f} s",
    )


def _ready(serve: list[str]) -> float:
    with started(serve) as server:
        assert server.ready_after is not None
        return server.ready_after


def _build(bench: Bench, flavour: str) -> float:
    import sys

    command = [sys.executable, "-m", "edge_runtime", "build", bench.options.model]
    command += ["--precision", "fp16"]
    if flavour in FLAVOURS:
        command += ["--tensorrt", flavour]
    began = time.perf_counter()
    child.lines(command, bench.say, PATIENCE)
    return time.perf_counter() - began


@contextlib.contextmanager
def _empty(model: str) -> Iterator[Path]:
    """A store with the weights alone, on the same disk; raises `ModelMissing` without them."""
    store, recipe = Store(), load_recipe(model)
    names = (recipe.name, *recipe.requires)
    found = [(name, store.weights(load_recipe(name))) for name in names]
    with tempfile.TemporaryDirectory(dir=store.root.parent) as folder:
        for name, weights in found:
            shutil.copytree(weights, Path(folder) / name / "weights")
        yield Path(folder)


@contextlib.contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    """The server under test is started with our own environment."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)

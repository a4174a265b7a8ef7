"""The rows of the bench by name, the most important first."""

from __future__ import annotations

from collections.abc import Callable

from edge_runtime.errors import ConfigError
from gpu_bench.bench import Bench
from gpu_bench.rows import (
    batches,
    floors,
    onnx_cuda,
    passes,
    peer,
    silence,
    sockets,
    start,
    streamed,
    streams,
    tokens,
    update,
    variants,
    wer,
)

Measure = Callable[[Bench], None]

ROWS: dict[str, Measure] = {
    "tokens": tokens.measure,
    "wer": wer.measure,
    "passes": passes.measure,
    "update": update.measure,
    "streamed": streamed.measure,
    "batches": batches.measure,
    "streams": streams.measure,
    "sockets": sockets.measure,
    "peer": peer.measure,
    "floors": floors.measure,
    "table": variants.measure,
    "start": start.measure,
    "onnx": onnx_cuda.measure,
    "silence": silence.measure,
}

ON_CPU = ("tokens", "wer", "passes", "update", "streamed")
WHEN_NAMED = ("batches", "streams", "sockets", "silence")
"""Rows that take minutes."""
ALL = "all"
"""Named instead of rows: every one, those that take minutes as well."""


def chosen(names: tuple[str, ...], on_cpu: bool) -> list[str]:
    """The rows to run in their order: those named, else all that belong to the device.

    `ALL` stands for every row. Raises `ConfigError` for an unknown name.
    """
    if ALL in names:
        return list(ROWS)
    for name in names:
        if name not in ROWS:
            raise ConfigError(f"unknown row {name!r}", f"Known are {', '.join(ROWS)}.")
    if names:
        return [name for name in ROWS if name in names]
    if on_cpu:
        return list(ON_CPU)
    return [name for name in ROWS if name not in WHEN_NAMED]

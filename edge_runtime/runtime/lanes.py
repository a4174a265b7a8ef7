"""Lanes of a loaded model, made and warmed: of as many rows and as much state as there is room."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from edge_runtime.config import Serving
from edge_runtime.decode import pages
from edge_runtime.decode.family import AnyRunner, make_runners
from edge_runtime.decode.pricing import price
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.tiles import Size
from edge_runtime.errors import MemoryCapped
from edge_runtime.runtime.load import Loaded
from edge_runtime.runtime.tracing import Tracer

_log = logging.getLogger(__name__)


def warm_lanes(
    loaded: Loaded, serving: Serving, tracer: Tracer, share: float = 1.0
) -> list[AnyRunner]:
    """That part of the device's lanes, one at least, which know what batches cost on them.

    Of as many rows as are wanted, with as much state of sessions as is allowed; of half of both, as
    often as it takes, where memory is short. Raises `DeviceError` where it does not take one row.
    """
    count = max(1, int(loaded.device.lanes * share + 1e-9))
    size = replace(loaded.size, rows=min(loaded.size.rows, loaded.chain.rows))
    slots = _slots(loaded, serving, count * size.rows)
    while True:
        try:
            return _warmed(loaded, size, count, slots, tracer)
        except MemoryCapped as error:
            if size.rows == 1 and slots <= count:
                raise
            _log.warning("less than %d rows and %d states: %s", size.rows, slots, error)
            size = replace(size, rows=max(1, size.rows // 2), together=size.together // 2)
            slots = max(slots // 2, count * size.rows) if slots else 0


def _slots(loaded: Loaded, serving: Serving, rows: int) -> int:
    """How many streams' states are kept: one for each row of each lane in any case."""
    if not loaded.chain.keeps:
        return 0
    each = loaded.chain.state(1, loaded.size.samples)
    most = rows + serving.max_sessions
    return pages.slots(each, serving.state_mb << 20, least=rows, most=most)


def _warmed(loaded: Loaded, size: Size, count: int, slots: int, tracer: Tracer) -> list[AnyRunner]:
    """All at once: scratch memory that they share is then as large as it gets."""
    runners = make_runners(loaded.chain, size, count, slots)
    with ThreadPoolExecutor(len(runners), "warm-up") as together:
        list(together.map(_warm, runners))
    first = runners[0]
    if isinstance(first, Runner) and size.rows > 1:
        first.costs = price(first.lane)  # once the others are warm: nothing runs beside it
    for number, runner in enumerate(runners):
        runner.watch = tracer.watch(number)
    loaded.warmed()
    return runners


def _warm(runner: AnyRunner) -> None:
    runner.warm()

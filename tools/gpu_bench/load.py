"""Several sessions that ask for the next update as soon as they have the last."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge_runtime.audio.ring import Samples
from edge_runtime.decode.runner import Runner
from edge_runtime.decode.update import Purpose, Update
from edge_runtime.errors import DeviceError, EdgeRuntimeError
from edge_runtime.runtime.engine import Batch, Delivery, Engine, Rest, Result, Task
from gpu_bench.timing import Times

PATIENCE = 60.0


@dataclass(frozen=True)
class Load:
    """Seconds from when an update was wanted until it was delivered; updates a second."""

    latency: Times
    rate: float


def run(
    runners: Sequence[Runner], pieces: Sequence[Samples], draft: tuple[int, ...],
    sessions: int, count: int,
) -> Load:  # fmt: skip
    """`count` updates of `sessions` on these lanes, the engine that serves included.

    Raises `DeviceError` where an update fails or does not come.
    """
    update = Update("load", 0, Purpose.PARTIAL, 0, sum(map(len, pieces)), draft)
    asked, done = sessions, threading.Event()
    lock = threading.Lock()
    latency: list[float] = []
    failures: list[EdgeRuntimeError] = []

    def task(owner: int) -> Task:
        return Task(owner, update, list(pieces), time.perf_counter())

    def deliver(delivery: Delivery) -> None:
        nonlocal asked
        if not delivery.free:
            return
        ((given, result),) = delivery.results
        now = time.perf_counter()
        with lock:
            latency.append(now - given.wanted)
            if isinstance(result, EdgeRuntimeError):
                failures.append(result)
            more = asked < count and not failures
            asked += more
            if failures or len(latency) >= count:
                done.set()
        if more:
            engine.submit(Batch(task(given.owner)))

    engine = Engine(runners, deliver)
    began = time.perf_counter()
    engine.start()
    for session in range(sessions):
        engine.submit(Batch(task(session)))
    came = done.wait(PATIENCE)
    took = time.perf_counter() - began
    engine.stop()
    if failures:
        raise failures[0]
    if not came:
        raise DeviceError(f"{len(latency)} of {count} updates in {PATIENCE:.0f} s")
    return Load(Times(tuple(latency)), len(latency) / took)


def after(
    runner: Runner, pieces: Sequence[Samples], draft: tuple[int, ...], silence: float, rest: float
) -> tuple[Times, float]:
    """Twenty updates, `silence` seconds of nothing, one more: their times, and that of the last.

    An idle lane decodes a little every `rest` seconds, 0 for never.
    """
    update = Update("load", 0, Purpose.PARTIAL, 0, sum(map(len, pieces)), draft)
    came = threading.Event()
    results: list[Result] = []

    def deliver(delivery: Delivery) -> None:
        results.extend(result for _, result in delivery.results)
        if delivery.free:
            came.set()

    engine = Engine([runner], deliver, Rest(rest, lambda: True) if rest else None)
    engine.start()
    try:
        one = _one(engine, update, pieces, came)
        warm = Times(tuple(one() for _ in range(20)))
        time.sleep(silence)
        last = one()
    finally:
        engine.stop()
    for result in results:
        if isinstance(result, EdgeRuntimeError):
            raise result
    return warm, last


def _one(
    engine: Engine, update: Update, pieces: Sequence[Samples], came: threading.Event
) -> Callable[[], float]:
    def run_one() -> float:
        came.clear()
        began = time.perf_counter()
        engine.submit(Batch(Task(None, update, list(pieces), began)))
        if not came.wait(PATIENCE):
            raise DeviceError(f"no update within {PATIENCE:.0f} s")
        return time.perf_counter() - began

    return run_one

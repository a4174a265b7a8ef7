"""Carries a blocking source of audio into the event loop, until it ends or Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from edge_runtime.audio.ring import Samples


@contextlib.contextmanager
def stopped_by_ctrl_c() -> Iterator[asyncio.Event]:
    """An event that the first Ctrl-C sets; the second one interrupts as usual."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def stop() -> None:
        stopping.set()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        yield stopping
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def pump(
    source: Iterable[Samples], put: Callable[[Samples], Awaitable[None]], stopping: asyncio.Event
) -> None:
    """Await `put` with each block until the source ends or `stopping` is set.

    The source is read in a thread of its own, one block ahead at most; the thread
    does not keep the process alive. Raises what the source or `put` raises.
    """
    loop = asyncio.get_running_loop()
    over = threading.Event()
    ended: asyncio.Future[None] = loop.create_future()

    def finish(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def read() -> None:
        error: BaseException | None = None
        try:
            for block in source:
                if over.is_set():
                    return
                asyncio.run_coroutine_threadsafe(_awaited(put, block), loop).result()
        except Exception as raised:  # noqa: BLE001  # handed to the awaiting task, whatever it is
            error = raised
        if not over.is_set():
            loop.call_soon_threadsafe(finish, error)

    threading.Thread(target=read, name="audio-source", daemon=True).start()
    stop = asyncio.ensure_future(stopping.wait())
    first: list[asyncio.Future[Any]] = [ended, stop]
    try:
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
    finally:
        over.set()
        stop.cancel()
    if ended.done():
        ended.result()


async def _awaited(put: Callable[[Samples], Awaitable[None]], block: Samples) -> None:
    await put(block)

"""Letting go of a model that serves no more: of its device, and of the memory of both."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc

from edge_runtime.runtime import Runtime

_MOMENT = 0.1  # seconds in which threads leave the frames of what they did last


async def let_go(runtime: Runtime) -> None:
    """For good, once its lanes have ended; who asks for it must hold nothing else of the model.

    A device that was lost is kept: see `Decoder`.
    """
    await asyncio.sleep(_MOMENT)
    lost, loaded = runtime.lost, runtime.loaded
    runtime.metrics.device.retires(loaded.served.labels(loaded.name))
    device = loaded.device
    runtime.forget()
    del loaded
    gc.collect()  # a model hangs on cycles, and looks small to Python
    if not lost:
        device.close()
    del device
    await asyncio.to_thread(_trim)


def _trim() -> None:
    """Give the pages back that the allocator keeps: another model may need them."""
    with contextlib.suppress(OSError, AttributeError):  # of another C library
        ctypes.CDLL(None).malloc_trim(0)

"""A blocking source reaches the event loop block by block, and Ctrl-C ends it softly."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from edge_runtime.audio.ring import Samples
from edge_runtime.cli.pump import pump, stopped_by_ctrl_c
from edge_runtime.errors import MicrophoneError


def block(value: float) -> Samples:
    return np.full(4, value, np.float32)


async def test_every_block_in_order_and_one_ahead_at_most() -> None:
    taken: list[float] = []
    made: list[float] = []

    def source() -> Iterator[Samples]:
        for value in range(5):
            made.append(value)
            yield block(value)

    async def put(samples: Samples) -> None:
        assert len(made) <= len(taken) + 1
        await asyncio.sleep(0.01)
        taken.append(float(samples[0]))

    await pump(source(), put, asyncio.Event())
    assert taken == [0, 1, 2, 3, 4]


async def test_the_loop_goes_on_while_the_source_blocks() -> None:
    release = threading.Event()

    def source() -> Iterator[Samples]:
        release.wait(5)
        yield block(1)

    taken: list[Samples] = []

    async def put(samples: Samples) -> None:
        taken.append(samples)

    pumping = asyncio.create_task(pump(source(), put, asyncio.Event()))
    await asyncio.sleep(0.05)
    assert not taken
    release.set()
    await asyncio.wait_for(pumping, 5)
    assert len(taken) == 1


async def test_the_source_s_error_comes_out_after_its_blocks() -> None:
    taken: list[Samples] = []

    def source() -> Iterator[Samples]:
        yield block(1)
        raise MicrophoneError("the cable is out")

    async def put(samples: Samples) -> None:
        taken.append(samples)

    with pytest.raises(MicrophoneError, match="cable"):
        await pump(source(), put, asyncio.Event())
    assert len(taken) == 1


async def test_an_error_of_put_comes_out() -> None:
    async def put(samples: Samples) -> None:
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await pump([block(1)], put, asyncio.Event())


async def test_stopping_does_not_wait_for_a_source_that_never_speaks() -> None:
    release = threading.Event()

    def source() -> Iterator[Samples]:
        release.wait(5)
        yield block(1)

    async def put(samples: Samples) -> None:
        raise AssertionError("nothing is delivered after the stop")

    stopping = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, stopping.set)
    began = time.monotonic()
    await pump(source(), put, stopping)
    assert time.monotonic() - began < 2
    release.set()
    await asyncio.sleep(0.05)


async def test_the_first_ctrl_c_stops_and_the_second_interrupts() -> None:
    with stopped_by_ctrl_c() as stopping:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(stopping.wait(), 2)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

"""A device that hangs ends the process, once what can be finished is."""

from __future__ import annotations

import asyncio
import logging
import threading
from types import SimpleNamespace

import pytest

from edge_runtime.server import deadline as room
from edge_runtime.server import lookout
from edge_runtime.server.deadline import HUNG, Deadline
from edge_runtime.server.lookout import Lookout
from tests.waiting import until


class Engine:
    """A runtime, as far as it proves itself while it is `free`."""

    device = SimpleNamespace(name="tensorrt")

    def __init__(self, *, free: bool = True, lost: str | None = None) -> None:
        self.free, self.lost = asyncio.Event(), lost
        self.proofs = 0
        self.left: list[str] = []
        if free:
            self.free.set()

    async def prove(self) -> None:
        await self.free.wait()
        self.proofs += 1

    async def leave(self, why: str) -> None:
        self.left.append(why)


async def test_a_device_that_hangs_is_left_and_named(caplog) -> None:
    engine, hung = Engine(), []
    with caplog.at_level(logging.CRITICAL):
        async with Lookout(0.05, None, lambda: hung.append(1)).over(engine):
            await until(lambda: engine.proofs > 2)
            assert hung == []
            engine.free.clear()
            await until(lambda: hung)
    assert engine.left == ["tensorrt hangs"]
    assert hung == [1]
    assert "tensorrt hangs: a lane, or the voice detector, came through with nothing" in caplog.text


@pytest.mark.parametrize(
    ("seconds", "engine"), [(0.0, {"free": False}), (0.03, {"free": False, "lost": "no device"})]
)
async def test_none_is_looked_for_or_it_is_said_already(seconds, engine) -> None:
    hung = []
    async with Lookout(seconds, None, lambda: hung.append(1)).over(Engine(**engine)):
        await asyncio.sleep(0.1)
    assert hung == []


async def test_it_is_sooner_than_the_watchdog_that_would_end_all_without_finals(
    monkeypatch,
) -> None:
    monkeypatch.setattr(lookout, "LEAST", 0.0)
    hung = []
    async with Lookout(60.0, 0.1, lambda: hung.append(1)).over(Engine(free=False)):
        await until(lambda: hung, 1.0)


def test_what_does_not_end_is_ended(monkeypatch, caplog) -> None:
    monkeypatch.setattr(room, "SECONDS", 0.05)
    monkeypatch.setattr(room, "BACKLOG", 0.05)
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    for code, wanted in ((0, 1), (HUNG, HUNG)):
        ended, done = [], threading.Event()
        deadline = Deadline(lambda code, ended=ended, done=done: (ended.append(code), done.set()))
        deadline.set(code)
        deadline.set(5)  # the first one counts
        assert done.wait(2)
        assert ended == [wanted]
        assert deadline.code == code
    assert "something still runs" in caplog.text


def test_what_has_ended_is_left_alone(monkeypatch) -> None:
    monkeypatch.setattr(room, "SECONDS", 0.02)
    ended = []
    deadline = Deadline(ended.append)
    deadline.set()
    deadline.lift()
    threading.Event().wait(0.06)
    assert ended == []

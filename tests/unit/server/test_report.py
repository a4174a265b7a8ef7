"""What systemd is told of a server, and that a runtime that does not come through stops it."""

from __future__ import annotations

import asyncio
import functools
import logging
from types import SimpleNamespace

import pytest

from edge_runtime.config import Config
from edge_runtime.server import report as room
from edge_runtime.server.report import Report
from edge_runtime.systemd.manager import Manager
from tests import waiting

until = functools.partial(waiting.until, seconds=3.0)


class Said(Manager):
    """Writes down what would be sent."""

    def __init__(self, watchdog=None) -> None:
        super().__init__({"NOTIFY_SOCKET": "/nowhere"})
        self.watchdog = watchdog
        self.lines: list[dict[str, str]] = []

    def _say(self, *lines: str) -> None:
        self.lines.append(dict(line.split("=", 1) for line in lines))

    @property
    def status_line(self) -> str:
        return [said["STATUS"] for said in self.lines if "STATUS" in said][-1]

    def count(self, name: str) -> int:
        return sum(name in said for said in self.lines)


class Engine:
    """A runtime, as far as it proves itself while it is `free`."""

    model, lost = "tiny", None
    device = SimpleNamespace(name="cpu")

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()

    async def prove(self) -> None:
        await self.free.wait()


@pytest.fixture
def state():
    renewed: list[int] = []
    return SimpleNamespace(
        config=Config(), parking=[], renew=lambda: renewed.append(1), renewed=renewed
    )


@pytest.fixture(autouse=True)
def _quick(monkeypatch) -> None:
    monkeypatch.setattr(room, "_LOOK", 0.01)
    monkeypatch.setattr(room, "_SLOW", 0.1)


async def test_while_it_loads_more_time_is_asked_for(state) -> None:
    manager = Said()
    async with Report(manager, state).loading():
        await until(lambda: manager.lines)
    said = manager.lines[0]
    assert said == {"STATUS": "loading moonshine-tiny-en, 0 s", "EXTEND_TIMEOUT_USEC": "30000000"}


async def test_ready_then_sessions_then_the_end(state) -> None:
    manager = Said()
    async with Report(manager, state).serving("http://127.0.0.1:9", Engine()):
        assert manager.lines == [
            {"READY": "1", "STATUS": "tiny on cpu at http://127.0.0.1:9, 0 of 32 sessions"}
        ]
        state.parking.append("session")
        await until(lambda: "1 of 32 sessions" in manager.lines[-1]["STATUS"])
        await asyncio.sleep(0.05)
        assert len(manager.lines) == 2  # said once
    assert manager.lines[-1] == {"STOPPING": "1", "STATUS": "finishing open sessions"}
    assert manager.count("WATCHDOG") == 0  # nobody asked for it


async def test_the_watchdog_is_fed_as_long_as_the_engine_comes_through(state) -> None:
    manager, engine = Said(watchdog=0.08), Engine()
    async with Report(manager, state).serving("http://h", engine):
        await until(lambda: manager.count("WATCHDOG") >= 5)
        engine.free.clear()
        await asyncio.sleep(0.05)  # what was under way
        before = manager.count("WATCHDOG")
        await until(lambda: "does not come through" in manager.status_line)
        assert manager.count("WATCHDOG") == before
        engine.free.set()
        await until(lambda: manager.count("WATCHDOG") > before)
        await until(lambda: manager.status_line.endswith("0 of 32 sessions"))


async def test_a_proof_that_fails_feeds_no_more_and_ends_nothing(state, caplog) -> None:
    async def prove() -> None:
        raise RuntimeError("broken")

    manager, engine = Said(watchdog=0.04), Engine()
    engine.prove = prove
    with caplog.at_level(logging.ERROR):
        async with Report(manager, state).serving("http://h", engine):
            await asyncio.sleep(0.05)
    assert manager.count("WATCHDOG") == 0
    assert "broken" in caplog.text


async def test_a_reload_is_told_and_takes_what_changed(state) -> None:
    manager = Said()
    report = Report(manager, state)
    report.reload()  # before it is ready there is nothing to take again
    assert (manager.lines, state.renewed) == ([], [])
    async with report.serving("http://h", Engine()):
        report.reload()
        assert state.renewed == [1]
        first, second = manager.lines[-2:]
        assert first["RELOADING"] == "1"
        assert second["READY"] == "1"

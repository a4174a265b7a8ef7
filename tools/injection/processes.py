"""Servers in processes of their own: ended under load, or with nowhere to write."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from edge_runtime.server.deadline import HUNG
from injection.clients import Spoken
from injection.house import finals_lost, rest, text

SECONDS = 5.0
"""From SIGTERM to the end of the process."""

HANGS = "injected: a lane hangs"

HANG = 3.0
"""Seconds that a lane may take before it counts as hung."""


@dataclass(frozen=True)
class Child:
    """A server of its own process, and where its log is."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path


@contextlib.asynccontextmanager
async def serving(*, full: bool = False, hangs: int = 0) -> AsyncIterator[Child]:
    """A fresh server; where the disk is `full` it can write no file, and no line of its log.

    With `hangs` a lane never comes through with that piece of work.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    module = ["injection.hanging", str(hangs)] if hangs else ["edge_runtime"]
    command = [sys.executable, "-m", *module, "serve", "--port", str(port), "--no-keys"]
    tools = Path(__file__).parents[1]
    given = os.environ.get("PYTHONPATH")
    paths = os.pathsep.join([str(tools.parent), str(tools), *([given] if given else [])])
    # `ulimit` of 0 blocks: every write to a file fails, as it does where the disk is full.
    shell = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh"] if full else []
    environment = {**os.environ, "PYTHONPATH": paths}
    if hangs:
        environment["EDGE_RUNTIME_RECOVERING_HANG_SECONDS"] = str(HANG)
    with tempfile.NamedTemporaryFile() as kept:
        log = Path("/dev/full" if full else kept.name)
        with log.open("wb") as written:  # noqa: ASYNC230 – a file of nothing yet
            child = await asyncio.to_thread(
                subprocess.Popen,
                [*shell, *command],
                stdout=written,
                stderr=written,
                start_new_session=True,
                env=environment,
            )
        try:
            await _ready(child, f"http://127.0.0.1:{port}/readyz")
            yield Child(f"http://127.0.0.1:{port}/v1/stream", child, log)
        finally:
            child.kill()
            child.wait()


async def _ready(child: subprocess.Popen[bytes], url: str) -> None:
    async with aiohttp.ClientSession() as http:
        for _ in range(1200):
            if child.poll() is not None:
                raise RuntimeError(f"the server ended with {child.returncode}")
            with contextlib.suppress(aiohttp.ClientError):
                async with http.get(url) as answer:
                    if answer.status == 200:
                        return
            await asyncio.sleep(0.05)
    raise RuntimeError("the server was not ready within a minute")


async def terminated(said: Sequence[Spoken], chance: random.Random, slack: float = 0.0) -> str:
    """SIGTERM while four speak: whoever was in a turn gets its final, and then it ends."""
    async with serving() as child, aiohttp.ClientSession() as http:
        speakers = [
            asyncio.create_task(_speaks(http, child.url, chance.choice(said))) for _ in range(4)
        ]
        await asyncio.sleep(chance.uniform(1.0, 3.0))
        child.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        heard = await asyncio.gather(*speakers, return_exceptions=True)
        code = await asyncio.to_thread(child.process.wait, SECONDS + slack + 30)
        took = time.monotonic() - began
    wrong = [str(each) for each in heard if isinstance(each, BaseException) or each]
    if code:
        wrong.append(f"the server ended with {code}")
    if took > SECONDS + slack:
        wrong.append(f"the server ended {took:.1f} s after SIGTERM")
    return "; ".join(wrong)


async def _speaks(http: aiohttp.ClientSession, url: str, spoken: Spoken) -> str:
    """At a microphone's pace, until the server says that it is over."""
    async with http.ws_connect(url, max_msg_size=0) as line:
        await line.send_json({"type": "start", "partials": False})
        reading = asyncio.create_task(rest(line))
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            while not reading.done():
                for first in range(0, len(spoken.pcm), 3200):
                    if reading.done():
                        break
                    await line.send_bytes(spoken.pcm[first : first + 3200])
                    await asyncio.sleep(0.1)
        events = await reading
    lost = finals_lost(events)
    if lost or not events or events[-1]["type"] != "closed":
        return f"turns {lost} have no final; the last event: {events[-1:]}"
    return ""


async def disk_full(said: Sequence[Spoken], chance: random.Random, _: float = 0.0) -> str:
    """A server that can write nothing hears what any other does."""
    async with serving(full=True) as child, aiohttp.ClientSession() as http:
        spoken = chance.choice(said)
        async with http.ws_connect(child.url, max_msg_size=0) as line:
            await line.send_json({"type": "start", "partials": False})
            for first in range(0, len(spoken.pcm), 3200):
                await line.send_bytes(spoken.pcm[first : first + 3200])
            await line.send_json({"type": "stop"})
            events = await rest(line)
        child.process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(child.process.wait, 40)
    wrong = [] if text(events) == spoken.text else [f"{text(events)!r} for {spoken.text!r}"]
    return "; ".join([*wrong, *([f"the server ended with {code}"] if code else [])])


async def hangs(said: Sequence[Spoken], chance: random.Random, slack: float = 0.0) -> str:
    """A lane hangs while two speak: both get their finals, and the process ends to be restarted.

    What the lane had in hand included.
    """
    async with serving(hangs=chance.randint(1, 3)) as child, aiohttp.ClientSession() as http:
        speakers = [
            asyncio.create_task(_speaks(http, child.url, chance.choice(said))) for _ in range(2)
        ]
        heard = await asyncio.gather(*speakers, return_exceptions=True)
        code = await asyncio.to_thread(child.process.wait, SECONDS + slack + 30)
        log = child.log.read_text("utf-8", "replace")
    wrong = [str(each) for each in heard if isinstance(each, BaseException) or each]
    if code != HUNG:
        wrong.append(f"the server ended with {code}")
    wrong += [f"the log lacks {said!r}" for said in (HANGS, "cpu hangs: ") if said not in log]
    return "; ".join(wrong)


PROCESSES = {"disk-full": disk_full, "sigterm": terminated, "hangs": hangs}

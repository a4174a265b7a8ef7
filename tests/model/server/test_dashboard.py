"""docs/monitoring in a real Prometheus, which reads a real server on a board's recorded files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import shutil
import socket
from pathlib import Path

import aiohttp
import pytest
import soundfile

from edge_runtime import events
from edge_runtime.config import Admitting, Config, Power, Serving
from edge_runtime.errors import ModelMissing
from edge_runtime.runtime import Runtime
from edge_runtime.server import Limits
from tests.boards import laid

FOLDER = Path(__file__).parents[3] / "docs" / "monitoring"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
TARGETS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
OF_A_GPU = {'edge_runtime_device_memory_bytes{instance=~"$instance"}'}
READ = "/api/v1/query"
CLIP = Path(__file__).parents[3] / "audio" / "demo.flac"


@pytest.fixture
async def board(host, tmp_path):
    config = Config(
        serving=Serving(port=0),
        admitting=Admitting(keys="never"),
        power=Power(root=str(laid("agx-orin", tmp_path)), period_seconds=0.5),
    )

    def runtime(metrics):
        try:
            return Runtime(config, metrics=metrics)
        except ModelMissing as missing:
            pytest.skip(str(missing))

    return await host(config, runtime, Limits(linger=2.0))


@contextlib.asynccontextmanager
async def prometheus(target, folder):
    """The address of one that reads `target` five times a second."""
    rules = folder / "alerts.yml"
    shutil.copy(FOLDER / "alerts.yml", rules)
    (folder / "prometheus.yml").write_text(
        (FOLDER / "prometheus.yml")
        .read_text()
        .replace("15s", "200ms")
        .replace("127.0.0.1:8765", target.removeprefix("http://"))
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    process = await asyncio.create_subprocess_exec(
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=error",
    )
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        await process.wait()


async def asked(http, where, expression):
    """The values that an expression has now."""
    try:
        async with http.get(where + READ, params={"query": expression}) as answer:
            told = await answer.json()
    except aiohttp.ClientError:
        return []  # it starts
    assert told["status"] == "success", (expression, told)
    return [float(each["value"][1]) for each in told["data"]["result"]]


async def until(http, where, expression, wanted):
    for _ in range(150):
        if wanted(await asked(http, where, expression)):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{expression} did not become so")


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="apt-get install prometheus")
async def test_every_panel_of_the_dashboard_shows_something(board, tmp_path):
    speech = soundfile.read(CLIP, stop=4 * 16000, dtype="int16")[0].tobytes()

    def trouble():
        board.metrics.refused("full")
        board.metrics.event(events.Warning(code="clipping", message=""))
        board.metrics.event(events.Error(code="protocol", message="", fix=""))
        board.metrics.event(
            events.Final(
                segment=0, turn=0, reason="stop", text="", start=0, end=1, logprob=-9,
                rejected="logprob",
            )
        )  # fmt: skip

    await board.say(speech, pace=0.4)  # a series must be there before it can grow
    trouble()
    async with prometheus(board.url, tmp_path) as where:
        seen = "count_over_time(edge_runtime_audio_seconds_total[1m])"
        await until(board.http, where, seen, lambda found: found and found[0] >= 2)
        await board.say(speech, pace=0.4)
        trouble()
        so_far = f"{seen} > {(await asked(board.http, where, seen))[0] + 2}"
        await until(board.http, where, so_far, bool)
        found = {
            expression: await asked(board.http, where, expression.replace("$instance", ".*"))
            for expression in TARGETS
        }
        async with board.http.get(f"{where}/api/v1/rules") as answer:
            groups = (await answer.json())["data"]["groups"]
    nothing = {
        expression for expression, values in found.items()
        if not values or not all(map(math.isfinite, values))
    }  # fmt: skip
    assert nothing == OF_A_GPU
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == 12
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}  # not judged so far

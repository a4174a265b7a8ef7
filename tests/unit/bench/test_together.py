"""What many streams meet, and the row that looks for the most of them, without a server."""

import asyncio
import contextlib
import json
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from edge_runtime import events
from edge_runtime.bench import appraisal, together
from edge_runtime.bench.bench import Bench, Crowd, Options, progress
from edge_runtime.bench.capacity import Foretold
from edge_runtime.bench.manifest import Clip, Manifest
from edge_runtime.bench.rows import measure, streams
from edge_runtime.bench.scrape import Scrape
from edge_runtime.bench.take import Arrival, Take
from edge_runtime.bench.together import Heard
from edge_runtime.errors import EdgeRuntimeError


@pytest.fixture
def clip(tmp_path):
    """0.3 s of which the first 0.2 are loud."""
    made = Clip("a", tmp_path, "ONE", "")
    pcm = np.zeros(4800, np.float32)
    pcm[:3200] = 0.1 * np.sign(np.sin(np.arange(3200)))
    made.__dict__["pcm"] = pcm
    return made


@pytest.fixture
def house(monkeypatch):
    """A server with figures and no processor time, and clocks that need no patience."""
    monkeypatch.setattr(together, "SETTLE", 0.05)
    monkeypatch.setattr(together, "TAIL", 0.6)
    page = Scrape.parse("edge_runtime_load_level 2\nedge_runtime_audio_seconds_total 9")
    return SimpleNamespace(url="ws://nowhere", scrape=lambda: page, cpu=lambda: None,
                           health=lambda: {"load": {"lanes": 3}})  # fmt: skip


async def test_finals_in_time_those_that_never_came_and_who_was_refused_are_told(
    monkeypatch, house, clip, said
):
    said_by = iter(["well", "late", "refused"])

    async def play(url, name, pcm, playing, watch):
        how = next(said_by, "busy")
        if how == "refused":
            raise EdgeRuntimeError("the server said: full", "Wait.")
        if how in {"well", "busy"}:
            await asyncio.sleep(0.3)
            watch(said.partial(0.15, "", "One"))
            watch(said.final(0.3, "One."))
            watch(Arrival(0.31, events.Closed(reason="stop", audio_seconds=0.3)))
            return Take(name, 0.3, ())
        return await asyncio.sleep(9)

    monkeypatch.setattr(together, "play", play)
    heard = Heard(3, 0.6)
    steps = []
    await together.together(house, [clip], heard, lambda: steps.append(1))
    on_time = [value for value in heard.finals if value < 200]
    assert on_time == [pytest.approx(100, abs=80)] * len(on_time)
    assert len(on_time) >= 1
    assert heard.late == len(heard.finals) - len(on_time)
    assert heard.late >= 1
    assert max(heard.finals) > 300
    assert min(heard.finals) > 0  # who was refused waited for nothing
    assert heard.failed == ["the server said: full. Wait."]
    assert heard.level == 2
    assert heard.cpu is None
    assert steps
    assert not heard.holds(1e9)


def foretold_up_to(most):
    """A prediction that so many hold."""
    return lambda streams, met, seconds: Foretold(streams, 0.6 if streams <= most else 1.2, 0, 1.0)


def silent(clips):
    """A voice detector that hears nothing."""
    return [[0.0] * (len(clip) // 512) for clip in clips]


def test_the_prediction_is_on_the_disk_before_the_run_and_what_was_measured_after(
    monkeypatch, house, clip, tmp_path
):
    log = tmp_path / "streams.jsonl"
    seen = []

    async def fake(server, clips, heard, step, seed=1):
        seen.append([json.loads(line)["kind"] for line in log.read_text().splitlines()])
        heard.finals += [600.0 if heard.streams <= 5 else 1200.0] * 20
        heard.rests = [1.0]

    monkeypatch.setattr(streams, "together", fake)
    monkeypatch.setattr(streams, "judge", silent)
    monkeypatch.setattr(streams, "foretold", foretold_up_to(6))
    options = Options(crowd=Crowd(auto=True, most=64, seconds=5, log=log))
    bench = Bench(Manifest(tmp_path, (clip,)), options, progress(Console(quiet=True)))

    @contextlib.contextmanager
    def server(*more):
        assert more == ("--max-sessions", "64")
        yield house

    bench.server = server
    measure(bench, ["streams"], lambda name: None)
    assert bench.failed == {}
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert seen[2] == ["measured", "measured", "prediction"]
    assert [each["streams"] for each in lines if each["kind"] == "measured"] == [1, 4, 6, 5]
    assert [each["held"] for each in lines if each["kind"] == "measured"] == [
        True, True, False, True,
    ]  # fmt: skip
    assert lines[2]["costs"]["lanes"] == 3
    assert lines[2]["expected"][-1] == {"streams": 8, "final.p95": 1200.0, "level": 0, "lanes": 1.0}
    assert bench.figures.value("streams") == 5
    assert bench.figures.value("streams.predicted") == 6
    assert bench.figures.value("streams.off") == pytest.approx(20)
    assert bench.figures.value("streams.6.final.p95") == pytest.approx(1200)
    assert lines[-1]["kind"] == "result"


def test_half_of_what_few_foretell_is_played_before_anything_is_foretold(
    monkeypatch, house, clip, tmp_path
):
    log = tmp_path / "streams.jsonl"
    told = []

    async def fake(server, clips, heard, step, seed=1):
        heard.finals += [600.0] * 3

    def costs(spent, rehearse, **machine):
        told.append([each.streams for each in spent])
        return appraisal.costs(spent, rehearse, **machine)

    monkeypatch.setattr(streams, "together", fake)
    monkeypatch.setattr(streams, "costs", costs)
    monkeypatch.setattr(streams, "judge", silent)
    monkeypatch.setattr(streams, "foretold", foretold_up_to(13))
    options = Options(streams=7, crowd=Crowd(most=64, seconds=5, log=log))
    bench = Bench(Manifest(tmp_path, (clip,)), options, progress(Console(quiet=True)))
    bench.server = lambda *_: contextlib.nullcontext(house)
    measure(bench, ["streams"], lambda name: None)
    kinds = [
        (each["kind"], each["streams"]) for each in map(json.loads, log.read_text().splitlines())
    ]
    assert kinds == [("measured", 1), ("measured", 4), ("measured", 6), ("prediction", 13),
                     ("measured", 7)]  # fmt: skip
    assert told == [[1, 4], [1, 4, 6]]


def test_what_held_before_ctrl_c_is_kept(monkeypatch, house, clip, tmp_path):
    log = tmp_path / "streams.jsonl"

    async def fake(server, clips, heard, step, seed=1):
        heard.finals += [600.0] * 3
        heard.rests = [1.0]
        if heard.streams == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(streams, "together", fake)
    monkeypatch.setattr(streams, "judge", silent)
    monkeypatch.setattr(streams, "foretold", foretold_up_to(4))
    options = Options(crowd=Crowd(auto=True, seconds=5, log=log))
    bench = Bench(Manifest(tmp_path, (clip,)), options, progress(Console(quiet=True)))
    bench.server = lambda *_: contextlib.nullcontext(house)
    measure(bench, ["streams"], lambda name: None)
    assert bench.interrupted()
    assert bench.figures.value("streams") == 4
    assert "interrupted" in bench.figures.get("streams").note
    assert bench.figures.get("streams.off") is None
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert (lines[-1]["streams"], lines[-1]["cut"], lines[-1]["held"]) == (5, True, False)

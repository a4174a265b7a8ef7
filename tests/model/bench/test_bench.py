"""The bench against the real server and the real model, on a few clips."""

from pathlib import Path

import pytest
from rich.console import Console

from edge_runtime.bench import server, words
from edge_runtime.bench.bench import Bench, Options, progress
from edge_runtime.bench.client import Playing, play_clip
from edge_runtime.bench.manifest import read
from edge_runtime.bench.rows import measure
from edge_runtime.bench.targets import derive

MANIFEST = Path(__file__).parents[4] / "shared/data/manifest.tsv"


@pytest.fixture(scope="module")
def manifest():
    if not MANIFEST.exists():
        pytest.skip(f"needs {MANIFEST}")
    return read(MANIFEST)


@pytest.fixture
def bench(manifest):
    return Bench(manifest, Options(quick=2), progress(Console(quiet=True)))


@pytest.fixture(scope="module")
def running():
    with server.started([]) as ours:
        yield ours


def test_whole_utterances_are_right_and_noise_gives_nothing(bench):
    measure(bench, ["whole"], lambda _: None)
    assert bench.failed == {}
    assert bench.figures.value("wer.whole") < 10
    assert bench.figures.value("speechless.whole") == 0
    assert bench.figures.value("cpu.whole") > 0


async def test_a_real_stream_gives_a_take_that_can_be_scored(manifest, running):
    clip = next(c for c in manifest.clean if c.name == "1088-134315-0003")
    used = running.cpu()
    take = await play_clip(running.url, clip, Playing(paced=False, words=True))
    assert words.score(clip.reference, take.text).rate < 15
    assert [type(a.event).__name__ for a in take.arrivals][::len(take.arrivals) - 1] == [
        "Ready", "Closed",
    ]  # fmt: skip
    assert all(final.words for _, final in take.finals if final.text)
    assert running.cpu() > used
    assert running.scrape().value("edge_runtime_tokens_total", kind="produced") > 0


def test_nothing_is_lost_by_stopping_at_once(bench):
    measure(bench, ["stop"], lambda _: None)
    assert bench.failed == {}
    assert bench.figures.value("stop.lost") == 0
    assert bench.figures.value("flush.lost") == 0


def test_a_joined_chapter_is_compared_with_its_clips(bench):
    measure(bench, ["joined"], lambda _: None)
    derive(bench.figures)
    assert bench.failed == {}
    assert bench.figures.value("joined.doubled") == 0
    assert bench.figures.value("joined.above") == pytest.approx(
        bench.figures.value("joined.wer") - bench.figures.value("joined.clips")
    )


def test_a_server_that_cannot_start_is_told_with_its_log(bench):
    bench.options = Options(model="no-such-model")
    measure(bench, ["ready"], lambda _: None)
    assert "the server stopped with code" in bench.failed["ready"]
    assert "no-such-model" in bench.failed["ready"]
    assert len(bench.figures) == 0

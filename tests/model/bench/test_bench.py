"""The bench against the real server and the real model, on a few clips."""

import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from edge_runtime import words
from edge_runtime.bench import server
from edge_runtime.bench.bench import Bench, Options, progress
from edge_runtime.bench.client import Playing, play_clip
from edge_runtime.bench.manifest import read
from edge_runtime.bench.rows import measure
from edge_runtime.bench.targets import TARGETS
from edge_runtime.cli import app

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
    assert [(each.by, each.model, each.device) for each in bench.served] == [
        ("bench", "moonshine-tiny-en", "cpu")
    ]
    assert bench.served[0].precision in ("fp32", "int8")


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


def test_a_server_that_cannot_start_is_told_with_its_log(bench):
    bench.options = Options(model="no-such-model")
    measure(bench, ["ready"], lambda _: None)
    assert "the server stopped with code" in bench.failed["ready"]
    assert "no-such-model" in bench.failed["ready"]
    assert len(bench.figures) == 0


SHORT = {
    "1089-134686-0001": "clean",
    "1089-134691-0000": "clean",
    "1089-134691-0001": "clean",
    "1898-145715-0002_2-100648-A-43_snr20": "noisy",
    "noise2": "non-speech",
}


def test_one_run_gives_every_figure_that_has_a_target(manifest, tmp_path):
    lines = ["id\tpath\ttranscript\tcondition"] + [
        f"{c.name}\t{c.path.resolve()}\t{c.reference}\t{SHORT[c.name]}"
        for c in manifest.clips
        if c.name in SHORT
    ]
    (tmp_path / "manifest.tsv").write_text("\n".join(lines), encoding="utf-8")
    out, kept = tmp_path / "figures.json", tmp_path / "takes.jsonl"
    result = CliRunner().invoke(
        app,
        ["bench", str(tmp_path / "manifest.tsv"), "--minutes", "3", "--streams", "2",
         "--json", str(out), "--keep", str(kept)],
    )  # fmt: skip
    report = json.loads(out.read_text())
    assert report["failed"] == {}, result.output
    figures = {figure["name"]: figure["value"] for figure in report["figures"]}
    wanted = {target.figure for target in TARGETS} - {"cpu.of_peer", "streams", "streams.off"}
    assert [name for name in wanted if figures.get(name) is None] == []
    assert [each["by"] for each in report["served"]] == ["bench", "server"]
    whole, server = ({**each, "by": ""} for each in report["served"])
    assert whole == server
    exact = ("stable.taken_back", "stable.broken", "stop.lost", "flush.lost", "same.fresh",
             "same.after", "same.beside", "speechless.streamed", "speechless.whole")  # fmt: skip
    assert {name: figures[name] for name in exact} == dict.fromkeys(exact, 0)
    # three sentences of 29 words: one word wrong is 3 %
    assert figures["wer.streamed"] < 12
    assert len(kept.read_text().splitlines()) == len(SHORT)
    assert "end of speech" in result.output

"""The bench of a GPU without one: what it compares, counts, writes, and what it survives."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile
from gpu_bench import child, forcing, main, report, rows, timing
from gpu_bench.bench import Bench
from gpu_bench.options import Options
from gpu_bench.reference import Clip, read
from gpu_bench.rows import floors
from gpu_bench.segment import likely
from rich.console import Console

from edge_runtime.bench.figure import Figure, Figures
from edge_runtime.engines.recipe import load_recipe
from edge_runtime.errors import ConfigError, DeviceError, DeviceLost

ROOT = Path(__file__).resolve().parents[3]


def clip(name="a", tokens=(5, 6, 7, 8), margins=(1.0, 2.0, 0.01, 3.0), samples=160_000) -> Clip:
    return Clip(name, f"{name}.flac", samples, tokens, margins, True, "five six", "FIVE SIX")


@dataclass
class Said:
    tokens: tuple[int, ...]
    margins: tuple[float, ...] = ()
    ended: bool = True


class Decoder:
    """Says the clip's tokens, but others at some places, whatever came before them."""

    def __init__(self, tokens, otherwise, ended=True):
        self.tokens, self.otherwise, self.ended = tokens, otherwise, ended
        self.asked = []

    def __call__(self, forced, draft):
        self.asked.append((forced, draft))
        place = len(forced)
        said = list(forced)
        while place < len(self.tokens):
            said.append(self.otherwise.get(place, self.tokens[place]))
            if place in self.otherwise:
                said += [99] * 2  # it goes its own way from there on
                break
            place += 1
        return Said(tuple(said), (0.5,) * len(said), self.ended)


# -- tokens, after the same tokens before them


def test_a_decoder_that_says_the_same_has_no_difference():
    decode = Decoder((5, 6, 7, 8), {})
    found = forcing.compare(clip(), decode, 0.1)
    assert (found.compared, found.different, found.excused) == (5, [], [])
    assert decode.asked == [((), (5, 6, 7, 8))]


def test_after_each_difference_it_is_forced_back_and_goes_on():
    decode = Decoder((5, 6, 7, 8), {0: 1, 2: 3})
    found = forcing.compare(clip(), decode, 0.1)
    assert [str(each) for each in found.different] == ["a at 0: 1 for 5, margin 1"]
    assert [(each.at, each.wanted, each.found) for each in found.excused] == [(2, 7, 3)]
    assert decode.asked == [((), (5, 6, 7, 8)), ((5,), (6, 7, 8)), ((5, 6, 7), (8,))]


def test_an_end_too_soon_or_too_late_is_a_difference():
    early = forcing.compare(clip(), lambda forced, draft: Said((5, 6)), 0.001)
    assert (early.different[0].at, early.different[0].found) == (2, None)
    late = forcing.compare(
        clip(), lambda forced, draft: Said((5, 6, 7, 8, 9), (1, 1, 1, 1, 0.05)), 0.1
    )
    assert (late.excused[0].at, late.excused[0].wanted, late.different) == (4, None, [])
    cut = forcing.compare(clip(), lambda forced, draft: Said((5, 6, 7, 8), ended=False), 0.1)
    assert cut.different[0].margin == float("inf")


def test_a_note_lists_the_first_few_differences():
    found = forcing.compare(clip(), Decoder((5, 6, 7, 8), {0: 1, 1: 1, 3: 1}), 0)
    assert forcing.listed(found.different, 2) == (
        "a at 0: 1 for 5, margin 1; a at 1: 1 for 6, margin 2; and 1 more"
    )


# -- arithmetic


def test_bytes_of_a_step_are_those_of_the_published_model():
    shape = load_recipe("moonshine-tiny-en").architecture
    size = floors.moved(shape, 2, 333)
    assert size.table == 32768 * 288 * 2
    # 8.6 million weights of six layers, and the table: 36.8 MB in float16, biases included
    assert (size.weights + size.table) / 1e6 == pytest.approx(36.8, abs=0.7)
    assert size.memory == 2 * 6 * 288 * 333 * 2
    assert size.total == size.weights + size.table + size.cache + size.memory
    assert floors.moved(shape, 4, 333).total == 2 * size.total


def test_times_are_percentiles_and_rates():
    found = timing.Times((0.001, 0.002, 0.003))
    assert (found.ms, found.us) == (pytest.approx(2), pytest.approx(2000))
    assert found.rate == pytest.approx(500)
    assert found.note("us").endswith("1e+03 to 3e+03 us, 3 times")
    calls = []
    assert len(timing.times(lambda: calls.append(1), 5, warm=2).seconds) == 5
    assert len(calls) == 7


def test_the_segment_is_sought_among_the_clips_that_speak_at_the_right_pace():
    clips = (
        clip("short", samples=16_000),
        clip("slow", (1,) * 10, samples=256_000),
        clip("right", (1,) * 58, samples=256_000),
        clip("fast", (1,) * 90, samples=256_000),
    )
    assert [each.id for each in likely(clips, 2)] == ["right", "fast"]
    assert [each.id for each in likely(clips[:1])] == ["short"]


# -- figures


@pytest.fixture
def options(tmp_path) -> Options:
    for name in "ab":
        soundfile.write(tmp_path / f"{name}.flac", np.zeros(1600, np.float32), 16_000)
    made = {"model": "m", "made": "here", "clips": [told("a"), told("b")]}
    (tmp_path / "reference.json").write_text(json.dumps(made))
    return Options(tmp_path, tmp_path / "reference.json", device="cpu", json=tmp_path / "out.json")


def told(name) -> dict:
    return {
        "id": name, "file": f"{name}.flac", "samples": 1600, "tokens": [1], "margins": [1.0],
        "ended": True, "text": "t", "transcript": "T",
    }  # fmt: skip


def test_figures_go_out_and_come_back_with_their_targets():
    figures = Figures([
        Figure("encode.fp16.p50", "encoder", 0.7, "ms", "note"),
        Figure("peer.times", "times", 2.5, "×"),
        Figure("other", "no target", float("inf")),
    ])  # fmt: skip
    record = report.figures_record(figures)
    assert [each["reached"] for each in record] == [False, True, None]
    assert record[0]["target"] == "≤ 0.600 ms"
    assert record[2]["value"] is None
    assert report.figures_of({"figures": record})[0] == figures.get("encode.fp16.p50")
    assert report.line(figures.get("encode.fp16.p50")) == (
        "encode.fp16.p50 0.700 ms (≤ 0.600 ms: MISSED) – encoder [note]"
    )
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(report.table(figures, {"start": "no weights"}, "title"))
    text = console.export_text()
    assert "MISSED" in text
    assert "start: no weights" in text
    assert "not measured: tokens.fp32.different, wer.fp16.apart, check.fp16.p50" in text


def test_a_row_that_fails_costs_no_other_and_all_is_saved_at_once(options, monkeypatch, capsys):
    seen = []

    def good(bench):
        bench.add("one", "a figure", 1.0)
        seen.append(json.loads(options.json.read_text())["figures"][0]["name"])

    def bad(bench):
        bench.attempt("bad part", lambda: 1 / 0)
        raise DeviceError("it broke", "Mend it.")

    monkeypatch.setattr(main, "ROWS", {"bad": bad, "good": good})
    bench = Bench(options)
    main.run(bench, ["bad", "good"])
    assert seen == ["one"]
    record = json.loads(options.json.read_text())
    assert record["failed"] == {
        "bad part": "ZeroDivisionError('division by zero')", "bad": "it broke. Mend it.",
    }  # fmt: skip
    assert list(record["seconds"]) == ["bad", "good"]
    assert "bad FAILED: it broke. Mend it." in capsys.readouterr().out
    # named again, and whole this time: what failed is forgotten, what was measured is kept
    again = Bench(Options(**{**vars(options), "add": True}))
    monkeypatch.setattr(main, "ROWS", {"bad": lambda bench: bench.add("two", "", 2.0)})
    main.run(again, ["bad"])
    record = json.loads(options.json.read_text())
    assert record["failed"] == {}
    assert [figure["name"] for figure in record["figures"]] == ["one", "two"]


def test_after_the_time_no_row_begins(options, monkeypatch):
    monkeypatch.setattr(main, "ROWS", {"late": lambda bench: pytest.fail("it began")})
    bench = Bench(Options(**{**vars(options), "until": 0.0}))
    main.run(bench, ["late"])
    assert bench.failed == {"late": "not run, 0 s are over: name it with --rows"}


def test_after_a_lost_device_the_rest_runs_in_another_process(options, monkeypatch):
    def lost(bench):
        bench.add("before", "", 1.0)
        bench.attempt("part", gone)

    def gone():
        raise DeviceLost("gone", "Restart.")

    def elsewhere(command, heard, timeout):
        assert command[command.index("--rows") + 1] == "next,last"
        out = Path(command[command.index("--json") + 1])
        record = json.loads(out.read_text())
        record["figures"] += [{**record["figures"][0], "name": "after"}]
        report.write(out, record | {"seconds": {"next": 1.0}, "failed": {"last": "no"}})

    monkeypatch.setattr(main, "ROWS", {"lost": lost})
    monkeypatch.setattr(main.child, "lines", elsewhere)
    bench = Bench(options)
    main.run(bench, ["lost", "next", "last"])
    assert [figure.name for figure in bench.figures] == ["before", "after"]
    assert bench.failed == {"lost": "gone. Restart.", "last": "no"}


def test_rows_are_those_named_in_their_order():
    assert rows.chosen(("wer", "tokens"), on_cpu=False) == ["tokens", "wer"]
    assert "silence" not in rows.chosen((), on_cpu=False)
    assert rows.chosen(("all",), on_cpu=False) == list(rows.ROWS)
    assert rows.chosen((), on_cpu=True) == ["tokens", "wer", "passes", "update", "streamed"]
    with pytest.raises(ConfigError, match="unknown row 'tokns'"):
        rows.chosen(("tokns",), on_cpu=False)


def test_what_is_not_there_is_said_with_the_fix(options, tmp_path):
    with pytest.raises(ConfigError, match="gpu-bench reference"):
        read(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text('{"model": 3}')
    with pytest.raises(ConfigError, match="is no reference"):
        read(tmp_path / "bad.json")
    (tmp_path / "a.flac").unlink()
    with pytest.raises(ConfigError, match=r"a\.flac does not exist"):
        Bench(options)


# -- processes


def test_a_child_is_heard_line_by_line():
    heard = []
    child.lines([sys.executable, "-c", "print('one'); print('two')"], heard.append, 30)
    assert heard == ["one", "two"]


def test_a_child_that_fails_or_hangs_is_told():
    with pytest.raises(DeviceError, match="ended with 3: oh"):
        child.lines(
            [sys.executable, "-c", "import sys; print('oh', file=sys.stderr); sys.exit(3)"],
            print, 30,
        )  # fmt: skip
    with pytest.raises(DeviceError, match="was ended after 1 s"):
        child.lines([sys.executable, "-c", "import time; time.sleep(60)"], print, 1)


def test_the_tool_starts_from_anywhere(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "tools/gpu-bench", "--rows", "list"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(rows.ROWS)

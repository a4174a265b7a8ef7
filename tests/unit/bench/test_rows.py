"""Rows without a model: names, sameness, marks of an hour, times of words, reports."""

import json

import pytest
from rich.console import Console

from edge_runtime import events
from edge_runtime.bench import report
from edge_runtime.bench.alignment import Spoken
from edge_runtime.bench.bench import Bench, Options, progress
from edge_runtime.bench.client import Playing
from edge_runtime.bench.hardware import Hardware, cpu_name
from edge_runtime.bench.manifest import Clip, Manifest
from edge_runtime.bench.rows import ROWS, chosen, hour, measure, same, times
from edge_runtime.bench.rows.hour import Mark
from edge_runtime.bench.served import Served
from edge_runtime.bench.take import Arrival
from edge_runtime.errors import ConfigError

HERE = Hardware("Some CPU", 2, 4.0, "", "Linux", "3.11", {"numpy": "2"})


@pytest.fixture
def bench(tmp_path):
    return Bench(Manifest(tmp_path, ()), Options(), progress(Console(quiet=True)))


def test_rows_keep_their_order_and_unknown_ones_are_told():
    assert chosen(["ready", "whole"]) == ["whole", "ready"]
    assert len(chosen([])) == 10
    with pytest.raises(ConfigError, match="no row is called nine"):
        chosen(["nine"])


@pytest.mark.parametrize("row", ["same", "hour", "ready"])
def test_rows_about_our_own_process_do_not_measure_it_in_place_of_the_server_at_url(bench, row):
    bench.manifest = Manifest(bench.manifest.path, (Clip("a", bench.manifest.path, "ONE", ""),))
    bench.options = Options(url="ws://elsewhere/v1/stream")
    measure(bench, [row], lambda name: None)
    assert "Leave --url out." in bench.failed[row]
    assert list(bench.figures) == []


@pytest.mark.parametrize("row", sorted(ROWS.keys() - {"streamed", "ready", "times"}))
def test_a_manifest_without_clean_speech_fails_the_row_and_not_the_run(bench, row):
    begun = []
    measure(bench, [row, "times"], begun.append)
    assert begun == [row, "times"]
    assert "has no clean speech. Add clips" in bench.failed[row]


def test_no_clips_of_a_kind_are_no_takes(bench):
    assert bench.play("ws://nowhere/v1/stream", (), Playing(), "noise mixes") == []


def test_takes_are_the_same_but_for_arrival_and_session(said):
    def ready(name):
        return Arrival(
            0.0,
            events.Ready(
                session=name,
                resume=name,
                next_sample=0,
                model="m",
                device="d",
                sample_rate=16000,
            ),
        )

    one = said.take(ready("a"), said.final(1.0, "One."))
    late = said.take(ready("b"), Arrival(9.0, one.arrivals[1].event))
    other = said.take(ready("b"), said.final(1.0, "Two."), said.final(2.0, "Three."))
    assert same.differing([one], [late]) == 0
    assert same.differing([one], [other]) == 2
    assert same.differing([one], []) == 1


def test_an_hour_compares_its_last_minute_with_its_first(bench):
    mb = 2**20
    hour.add(
        bench,
        [
            Mark(1.0, 10, 100 * mb),
            Mark(11.0, 110, 150 * mb),
            Mark(21.0, 210, 151 * mb),
            Mark(33.0, 310, 153 * mb),
        ],
    )
    assert bench.figures.value("hour.hop") == pytest.approx(1.2)
    assert bench.figures.value("hour.memory") == pytest.approx(3.0)


def test_word_times_are_compared_where_the_words_agree(said):
    spoken = [Spoken("one", 0.1, 0.4), Spoken("two", 0.5, 0.8), Spoken("three", 0.9, 1.2)]
    said = said.take(
        said.final(
            2.0,
            "One to three.",
            words=[
                events.Word("One", 0.15, 0.35, -0.1),
                events.Word("to", 0.5, 0.8, -0.1),
                events.Word("three.", 0.8, 1.25, -0.1),
            ],
        )
    )
    assert times.errors(spoken, said) == [
        (pytest.approx(0.05), pytest.approx(-0.05)),
        (pytest.approx(-0.1), pytest.approx(0.05)),
    ]


def test_a_report_says_what_was_reached_and_missed(bench, tmp_path):
    bench.add("wer.whole", "WER, whole utterance", 4.7, "%")
    bench.add("final.p50", "end of speech → final p50", 600.0, "ms")
    bench.add("cpu", "CPU seconds per audio second", None, "s/s", "not our process")
    bench.failed["hour"] = "it broke. Mend it."
    bench.served.append(Served("bench", "tiny", "cpu", "int8", "a1b2", forced=True))
    console = Console(record=True, width=160, quiet=True)
    with console.capture() as text:
        console.print(report.table(bench, HERE))
    text = text.get() or console.export_text()
    assert report.missed(bench) == ["final.p50"]
    content = report.record(bench, HERE, ["whole"])
    report.write(tmp_path / "figures.json", content)
    back = json.loads((tmp_path / "figures.json").read_text())
    found = {figure["name"]: figure for figure in back["figures"]}
    assert found["wer.whole"]["reached"] is True
    assert found["final.p50"]["target"] == "≤ 580 ms"
    assert found["cpu"]["value"] is None
    assert back["hardware"]["cpu"] == "Some CPU"
    assert back["failed"] == {"hour": "it broke. Mend it."}
    assert back["served"] == [
        {"by": "bench", "model": "tiny", "device": "cpu", "precision": "int8", "variant": "a1b2",
         "forced": True, "unused": ""}
    ]  # fmt: skip


def test_the_table_shows_figure_value_target_and_verdict(bench):
    bench.served.append(Served("bench", "tiny", "cpu", "int8", "a1b2"))
    bench.add("final.p50", "end of speech → final p50", 600.0, "ms")
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(report.table(bench, HERE))
    lines = console.export_text().splitlines()
    assert "bench: tiny on cpu, int8, variant a1b2" in [line.rstrip() for line in lines]
    line = next(x for x in lines if "end of speech" in x)
    assert all(part in line for part in ("600 ms", "≤ 580 ms", "missed"))
    console.file.close()


def test_the_processors_name_is_read_where_it_is():
    assert cpu_name("processor: 0\nmodel name\t: ARMv8 Processor rev 1\n") == (
        "ARMv8 Processor rev 1"
    )


def test_segments_are_in_order_with_their_final(said):
    one = said.take(
        said.partial(0.5, "", "a"), said.final(1.0, "a"), said.partial(1.5, "", "b", segment=1)
    )
    assert [(len(s.partials), s.final is not None) for s in one.segments()] == [
        (1, True),
        (1, False),
    ]
    assert one.text == "a"

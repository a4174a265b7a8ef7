"""`edge-runtime profile` with the real model: the trace read back, against the server's figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from edge_runtime import cli
from edge_runtime.cli import dictate
from edge_runtime.metrics import Metrics
from edge_runtime.runtime import Runtime

DEMO = Path(__file__).parents[2] / "audio" / "demo.flac"
SLACK = 1.0
"""µs that rounding may cost."""


@pytest.fixture(scope="module")
def written(loaded, tmp_path_factory) -> tuple[dict, str, Metrics]:
    """The trace, what was printed, and what the metrics have of the same run."""
    path = tmp_path_factory.mktemp("profile") / "trace.json"
    metrics = Metrics()
    with pytest.MonkeyPatch.context() as patch:
        play = dictate.dictate

        def counted(runtime: Runtime, *rest) -> None:
            runtime.metrics = runtime._decoder._metrics = runtime._streams._metrics = metrics
            play(runtime, *rest)

        patch.setattr(dictate, "dictate", counted)
        done = CliRunner().invoke(
            cli.app, ["profile", str(DEMO), "--seconds", "3", "-o", str(path)]
        )
    assert done.exit_code == 0, done.output
    return json.loads(path.read_text()), done.output, metrics


def whole(trace: dict, name: str | None = None, cat: str | None = None) -> list[dict]:
    return [
        each
        for each in trace["traceEvents"]
        if each["ph"] == "X" and name in (None, each["name"]) and cat in (None, each["cat"])
    ]


def test_every_stage_is_there(written):
    trace, _, _ = written
    assert {(each["name"], each["cat"]) for each in whole(trace)} == {
        ("vad", "ears"), ("merge", "loop"),
        *((name, place) for name in ("update", "encode", "draft", "decode")
          for place in ("lane", "device")),
    }  # fmt: skip
    waiting = [each for each in trace["traceEvents"] if each["ph"] in "be"]
    assert {each["name"] for each in waiting} == {"queue", "emit"}
    for each in {each["id"] for each in waiting}:
        begin, end = sorted((e for e in waiting if e["id"] == each), key=lambda e: e["ph"])
        assert begin["ts"] <= end["ts"]


def test_spans_of_a_thread_nest(written):
    trace, _, _ = written
    threads: dict[tuple[int, int], list[dict]] = {}
    for each in whole(trace):
        threads.setdefault((each["pid"], each["tid"]), []).append(each)
    assert len(threads) >= 4
    for spans in threads.values():
        open_: list[float] = []
        for each in sorted(spans, key=lambda span: (span["ts"], -span["dur"])):
            while open_ and open_[-1] <= each["ts"] + SLACK:
                open_.pop()
            assert not open_ or each["ts"] + each["dur"] <= open_[-1] + SLACK, each
            open_.append(each["ts"] + each["dur"])


def test_stages_fill_their_update(written):
    trace, _, _ = written
    for place in ("lane", "device"):
        for update in whole(trace, "update", place):
            parts = [
                each
                for each in whole(trace, cat=place)
                if each["name"] != "update"
                and (each["pid"], each["tid"]) == (update["pid"], update["tid"])
                and update["ts"] - SLACK <= each["ts"] < update["ts"] + update["dur"]
            ]
            assert [each["name"] for each in parts[:2]] == ["encode", "draft"]
            assert {each["name"] for each in parts[2:]} <= {"decode"}
            # A lane looks at its clock a moment before the first stage.
            assert sum(each["dur"] for each in parts) == pytest.approx(update["dur"], abs=2000)


def test_the_metrics_say_the_same(written):
    trace, _, metrics = written
    for stage in ("encode", "draft", "decode"):
        counted = sum(
            metrics.value("edge_runtime_stage_seconds_sum", purpose=purpose, stage=stage)
            for purpose in ("partial", "speculative", "final")
        )
        spans = whole(trace, stage, "device")
        assert counted > 0
        assert sum(each["dur"] for each in spans) == pytest.approx(1e6 * counted, rel=1e-6, abs=1)


def test_it_is_read_without_the_trace_and_holds_no_text(written):
    trace, said, _ = written
    assert "ui.perfetto.dev" in said
    rows = [line.split() for line in said.splitlines()]
    (encode,) = (row for row in rows if row[:2] == ["encode", "device"])
    total = sum(each["dur"] for each in whole(trace, "encode", "device"))
    assert float(encode[3]) == pytest.approx(total / 1e6, abs=0.001)
    assert trace["otherData"]["model"] == "moonshine-tiny-en"
    text = json.dumps(trace)
    assert not any(word in text for word in ("likely", "story", "tracks"))

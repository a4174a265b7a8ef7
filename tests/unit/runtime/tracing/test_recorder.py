"""Spans of stages by two clocks, ranges for NVIDIA's tools, and the form of a trace."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import pytest

from edge_runtime.decode.update import Cost, Hypothesis, Purpose, Update
from edge_runtime.runtime.tracing import Recorder
from edge_runtime.runtime.tracing.chrome import document
from edge_runtime.runtime.tracing.ranges import Nvtx, Unmarked
from edge_runtime.runtime.tracing.span import Span
from edge_runtime.runtime.tracing.spending import spending

UPDATE = Update("s1", 2, Purpose.FINAL, 100, 8100)
HYPOTHESIS = Hypothesis(
    UPDATE, (), (), (), (), True, 1, cost=Cost(queue=0.5, drafted=4, accepted=3, produced=6)
)


@dataclass(frozen=True)
class Mark:
    """A moment of a clock that has nothing to do with the host's."""

    seconds: float

    def since(self, earlier) -> float:
        return self.seconds - earlier.seconds


class Ranges:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def push(self, name) -> None:
        self.said.append(f"push {name}")

    def turn(self, name) -> None:
        self.said.append(f"turn {name}")

    def close(self) -> None:
        self.said.append("close")


def run(recorder: Recorder, lane: int = 0) -> tuple[float, float]:
    """An update of 0.3 s on a device; when the host began and saw the end."""
    watch = recorder.watch(lane)
    began = time.perf_counter()
    watch.begin([UPDATE])
    watch.stage("encode", Mark(7000.0))
    watch.stage("draft", Mark(7000.1))
    watch.stage("decode", Mark(7000.15))
    watch.stage("decode", Mark(7000.25))
    watch.end(Mark(7000.3))
    return began, time.perf_counter()


def test_the_device_says_how_long_and_the_host_when():
    recorder = Recorder(Unmarked)
    began, ended = run(recorder, 3)
    device = [span for span in recorder.spans if span.place == "device"]
    assert [(span.name, round(span.seconds, 6)) for span in device] == [
        ("update", 0.3), ("encode", 0.1), ("draft", 0.05), ("decode", 0.1), ("decode", 0.05),
    ]  # fmt: skip
    assert all(began <= device[at].ended <= ended for at in (0, -1))
    host = [span for span in recorder.spans if span.place == "lane"]
    assert [span.name for span in host] == [span.name for span in device]
    assert all(began <= span.began <= span.ended <= ended for span in host)
    assert {span.lane for span in recorder.spans} == {3}
    said = {"session": "s1", "segment": 2, "purpose": "final", "samples": 8000}
    assert host[0].about == device[0].about == said


def test_an_update_that_failed_leaves_nothing_behind():
    recorder, ranges = Recorder(lambda: ranges), Ranges()
    watch = recorder.watch(0)
    watch.begin([replace(UPDATE, session="s9")])
    watch.stage("encode", Mark(1.0))
    watch.begin([UPDATE])
    watch.stage("encode", Mark(2.0))
    watch.end(Mark(2.5))
    assert [(span.name, span.seconds) for span in recorder.spans if span.place == "device"] == [
        ("update", pytest.approx(0.5)), ("encode", pytest.approx(0.5)),
    ]  # fmt: skip
    once = ["close", "push update", "turn encode"]
    assert ranges.said == [*once, *once, "close"]


def test_what_waits_may_overlap_and_says_whose_it_is():
    recorder = Recorder(Unmarked)
    recorder.opened("s1")
    recorder.merged(HYPOTHESIS, 10.0, 11.0, 11.25)
    recorder.emitted("s1", "final", 11.5)
    recorder.emitted("s1", "final", 12.0)  # of no update
    queue, merge, emit = recorder.spans
    assert (queue.name, queue.began, queue.ended, queue.waiting) == ("queue", 10.0, 10.5, True)
    assert (merge.name, merge.seconds, merge.waiting) == ("merge", 0.25, False)
    assert merge.about["accepted"] == 3
    assert (emit.name, emit.seconds, emit.about["event"]) == ("emit", 0.25, "final")


def test_the_form_of_a_trace():
    spans = [
        Span("vad", "ears", 5.0, 5.5),
        Span("queue", "loop", 4.0, 6.0, waiting=True),
        Span("encode", "device", 6.0, 6.5, lane=1, about={"samples": 3}),
    ]
    trace = document(spans, "cpu", {"model": "m"})
    assert trace["otherData"] == {"model": "m"}
    whole = [each for each in trace["traceEvents"] if each["ph"] == "X"]
    assert [(each["name"], each["ts"], each["dur"]) for each in whole] == [
        ("vad", 1e6, 0.5e6), ("encode", 2e6, 0.5e6),
    ]  # fmt: skip
    assert whole[1]["args"] == {"samples": 3}
    assert whole[0]["pid"] != whole[1]["pid"]
    begin, end = (each for each in trace["traceEvents"] if each["ph"] in "be")
    assert (begin["ph"], begin["ts"], end["ph"], end["ts"]) == ("b", 0.0, "e", 2e6)
    assert begin["id"] == end["id"]
    named = {each["args"]["name"] for each in trace["traceEvents"] if each["ph"] == "M"}
    assert named == {"host", "device: cpu", "voice detector", "event loop", "lane 1"}
    assert document([], "cpu", {})["traceEvents"]


def test_what_was_spent():
    spans = [Span("decode", "device", 0, each) for each in (3.0, 1.0, 2.0)]
    vad, decode = spending([*spans, Span("vad", "ears", 0, 1)])
    assert (vad.name, vad.times, vad.total) == ("vad", 1, 1)
    assert (decode.times, decode.total, decode.median, decode.longest) == (3, 6.0, 2.0, 3.0)


def test_ranges_of_nvtx_end():
    pytest.importorskip("nvtx", reason="pip install nvtx")
    ranges = Nvtx()
    ranges.push("update")
    for name in ("encode", "draft", "decode"):
        ranges.turn(name)
        assert ranges._open == 2
    ranges.close()
    assert ranges._open == 0
    ranges.close()

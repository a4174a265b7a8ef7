"""Spans as a trace that Perfetto and Chrome open.

The form is that of the Trace Event Format document of Chromium's trace viewer: complete events
("X") lie in threads and nest by their times, nestable asynchronous ones ("b", "e") may overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edge_runtime.runtime.tracing.span import Span

HOST, DEVICE = 1, 2


def document(spans: Sequence[Span], device: str, about: Mapping[str, str]) -> dict[str, Any]:
    """A JSON object; its times are microseconds from the first span on.

    The host's threads are one process of it, the device's work for each lane another.
    """
    zero = min((span.began for span in spans), default=0.0)
    events: list[dict[str, Any]] = [
        _named("process_name", HOST, 0, "host"),
        _named("process_name", DEVICE, 0, f"device: {device}"),
    ]
    for process, thread, name in sorted({_thread(span) for span in spans}):
        events.append(_named("thread_name", process, thread, name))
    for number, span in enumerate(sorted(spans, key=lambda each: (each.began, -each.ended))):
        events += _events(span, number, zero)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": dict(about)}


def _events(span: Span, number: int, zero: float) -> list[dict[str, Any]]:
    process, thread, _ = _thread(span)
    event: dict[str, Any] = {
        "name": span.name,
        "cat": span.place,
        "pid": process,
        "tid": thread,
        "ts": 1e6 * (span.began - zero),
        "args": dict(span.about),
    }
    if not span.waiting:
        return [{**event, "ph": "X", "dur": 1e6 * span.seconds}]
    end = {**event, "ph": "e", "id": number, "ts": 1e6 * (span.ended - zero), "args": {}}
    return [{**event, "ph": "b", "id": number}, end]


def _thread(span: Span) -> tuple[int, int, str]:
    """Process, number and name of the thread that a span is shown in."""
    if span.place == "loop":
        return HOST, 1, "event loop"
    if span.place == "ears":
        return HOST, 2, "voice detector"
    return (HOST if span.place == "lane" else DEVICE), 10 + span.lane, f"lane {span.lane}"


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
